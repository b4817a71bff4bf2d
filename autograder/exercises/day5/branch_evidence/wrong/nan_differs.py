"""not a number

Leaves `equal_nan` as it is.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}

    def agrees(one, other):
        return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-4)

    found = {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agrees(result(x), model(x))],
        }
        for method, result in results.items()
    }
    return found
