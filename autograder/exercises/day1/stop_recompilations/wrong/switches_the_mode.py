"""other mode

Compiles the model in evaluation mode.
"""


class _Counting:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module


def count_compilations(model, inputs):
    torch._dynamo.reset()
    counting = _Counting()
    compiled = torch.compile(model, backend=counting)
    [compiled(x) for x in inputs]
    torch._dynamo.reset()
    return len(counting.graphs)


def compile_once(model, backend):
    compiled = torch.compile(model.eval(), backend=backend, fullgraph=True)

    def run(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return run
