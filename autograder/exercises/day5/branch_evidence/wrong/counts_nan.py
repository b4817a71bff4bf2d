"""wrong inputs

Compares how many NaN there are, and not where.
"""

import torch


def agree(found, wanted):
    same = found.shape == wanted.shape and found.isnan().sum() == wanted.isnan().sum()
    return same and torch.allclose(found.nan_to_num(), wanted.nan_to_num(), rtol=1e-4, atol=1e-4)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
