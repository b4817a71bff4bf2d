"""one model for two backends

Compiles the model in place, so that whoever compiles it last decides for all.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    model.compile(backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        return model(input_ids, attention_mask=attention_mask)[0]

    return run
