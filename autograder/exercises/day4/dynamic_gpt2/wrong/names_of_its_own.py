"""raised

Its function calls the inputs something else, so nobody can hand them over by name.
"""


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(tokens, mask):
        return compiled(tokens, attention_mask=mask)[0]

    return run
