"""earlier runs leak in

Tidies up after counting, and finds what others left.
"""


class _Counting:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module


def count_compilations(model, inputs):
    counting = _Counting()
    compiled = torch.compile(model, backend=counting)
    [compiled(x) for x in inputs]
    torch._dynamo.reset()
    return len(counting.graphs)


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend, fullgraph=True)

    def run(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return run
