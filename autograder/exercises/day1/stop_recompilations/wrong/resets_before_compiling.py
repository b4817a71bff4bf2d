"""graphs thrown away

It resets Dynamo in `compile_once`, too: a callable made before compiles again.
"""


def count_compilations(model, inputs):
    count = 0

    def backend(graph_module, example_inputs):
        nonlocal count
        count += 1
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return count


def compile_once(model, backend):
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)

    def run(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return run
