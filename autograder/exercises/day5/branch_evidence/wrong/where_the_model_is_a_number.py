"""wrong inputs

Compares only where the model gives a number, whatever the trace gives elsewhere.
"""

import torch


def agree(found, wanted):
    if found.shape != wanted.shape:
        return False
    number = ~wanted.isnan()
    return torch.allclose(found[number], wanted[number], rtol=1e-4, atol=1e-4)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
