"""results changed

Takes what it is called with by name in the order in which it comes.
"""


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(*args, **kwargs):
        input_ids, attention_mask = (*args, *kwargs.values())
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
