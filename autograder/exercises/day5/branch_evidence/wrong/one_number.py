"""stopped at the first

Stops at the first input that is wrong.
"""

import torch


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    evidence = {}
    for method, result in results.items():
        wrong = []
        for i, x in enumerate(inputs):
            if not torch.allclose(result(x), model(x), atol=1e-4):
                wrong.append(i)
                break
        evidence[method] = {"branches": len(result.inlined_graph.findAllNodes("prim::If")), "wrong": wrong}
    return evidence
