"""results changed

Makes a mask of its own, of all tokens that are not 0.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        attention_mask = (input_ids != 0).long()
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
