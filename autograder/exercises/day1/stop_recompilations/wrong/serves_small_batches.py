"""ran without the graph

Promises a range that ends too soon.
"""

import torch


def count_compilations(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return len(graphs)


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(x):
        if x.shape[0] > 9:
            return model(x)
        x = x.view(x.shape)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=9)
        return compiled(x)

    return run
