"""wrong inputs

Lists an input that equals one in the list no more.
"""

import torch


def branch_evidence(model, inputs):
    evidence = {}
    for name, make in (
        ("trace", lambda: torch.jit.trace(model, inputs[0].clone())),
        ("script", lambda: torch.jit.script(model)),
    ):
        captured = make()
        wrong = []
        for index, value in enumerate(inputs):
            wanted, found = model(value.clone()), captured(value.clone())
            if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True):
                if not any(torch.equal(inputs[i], value) for i in wrong):
                    wrong.append(index)
        evidence[name] = {"branches": len(list(captured.inlined_graph.findAllNodes("prim::If"))), "wrong": wrong}
    return evidence
