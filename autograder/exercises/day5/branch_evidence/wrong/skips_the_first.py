"""wrong inputs

Believes that the first input, on which it was traced, is right with both.
"""

import torch


def agree(found, wanted):
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if i > 0 and not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
