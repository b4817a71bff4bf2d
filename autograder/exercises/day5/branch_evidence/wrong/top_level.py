"""outermost level only

Goes through the nodes of the graph, without the blocks within.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": sum(node.kind() == "prim::If" for node in result.inlined_graph.nodes()),
            "wrong": [i for i, x in enumerate(inputs) if not torch.allclose(result(x), model(x), atol=1e-4)],
        }
        for method, result in results.items()
    }
