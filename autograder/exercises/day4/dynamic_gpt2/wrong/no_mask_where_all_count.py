"""waited for the change

Leaves the mask out where every token counts.
"""


def compile_gpt2(model: nn.Module, backend):
    """A function of `input_ids` and `attention_mask`, `int64` of shape (rows, length), that returns the states."""
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        if attention_mask.all() and len(input_ids) > 1:
            attention_mask = None
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
