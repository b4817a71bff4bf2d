"""counts of wrong answers

Gives the number of wrong inputs instead of which.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [n] if (n := sum(not torch.allclose(result(x), model(x), atol=1e-4) for x in inputs)) else [],
        }
        for method, result in results.items()
    }
