"""filling left out

Clears the states at tokens that do not count.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        return compiled(input_ids, attention_mask=attention_mask)[0] * attention_mask[..., None]

    return run
