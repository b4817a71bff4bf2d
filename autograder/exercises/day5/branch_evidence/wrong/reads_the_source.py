"""branches in a trace

Counts the branches of the model, and believes that a trace has them too.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(results["script"].inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not torch.allclose(result(x), model(x), atol=1e-4)],
        }
        for method, result in results.items()
    }
