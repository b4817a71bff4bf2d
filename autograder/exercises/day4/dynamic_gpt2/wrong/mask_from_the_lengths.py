"""results changed

Counts the tokens of each text, and takes for granted that they stand on the right.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        count = attention_mask.sum(1, keepdim=True)
        length = input_ids.shape[1]
        attention_mask = (torch.arange(length) >= length - count).long()
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
