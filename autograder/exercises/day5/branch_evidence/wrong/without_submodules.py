"""outermost level only

Looks at the graph of the outermost `forward` only.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not torch.allclose(result(x), model(x), atol=1e-4)],
        }
        for method, result in results.items()
    }
