"""traced on another input

Takes any input as the example.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[-1],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not torch.allclose(result(x), model(x), atol=1e-4)],
        }
        for method, result in results.items()
    }
