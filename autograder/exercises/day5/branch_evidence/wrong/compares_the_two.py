"""blames scripting

Compares trace and script with each other, and believes that both are wrong where they differ.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [
                i
                for i, x in enumerate(inputs)
                if not torch.allclose(results["trace"](x), results["script"](x), atol=1e-4)
            ],
        }
        for method, result in results.items()
    }
