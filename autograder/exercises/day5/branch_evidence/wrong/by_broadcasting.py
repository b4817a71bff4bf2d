"""another shape

Does not look at shapes.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}

    def agrees(one, other):
        return torch.allclose(one, other, rtol=1e-4, atol=1e-4, equal_nan=True)

    found = {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agrees(result(x), model(x))],
        }
        for method, result in results.items()
    }
    return found
