"""another tolerance

Allows 1e-4 whatever the size of the numbers.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}

    def agrees(one, other):
        if one.shape != other.shape or not torch.equal(one.isnan(), other.isnan()):
            return False
        difference = (one - other).nan_to_num().abs()
        return bool((difference <= 1e-4).all())

    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agrees(result(x), model(x))],
        }
        for method, result in results.items()
    }
