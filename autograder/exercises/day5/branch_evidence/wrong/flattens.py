"""wrong inputs

Compares the values one after the other, in whatever shape.
"""

import torch


def agree(found, wanted):
    if found.numel() != wanted.numel():
        return False
    return torch.allclose(found.flatten(), wanted.flatten(), rtol=1e-4, atol=1e-4, equal_nan=True)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
