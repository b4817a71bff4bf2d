"""changed the inputs

Sets the tokens at the filling to 0, in the tensor of whoever calls.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        input_ids.mul_(attention_mask)
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
