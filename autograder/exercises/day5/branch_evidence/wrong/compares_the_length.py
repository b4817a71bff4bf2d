"""wrong inputs

Compares the number of dimensions and of rows.
"""

import torch


def agree(found, wanted):
    same = found.dim() == wanted.dim() and found.shape[:1] == wanted.shape[:1]
    return same and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
