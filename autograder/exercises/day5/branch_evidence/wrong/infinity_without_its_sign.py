"""wrong inputs

Takes plus and minus infinity for the same.
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
            if found.shape != wanted.shape or not torch.allclose(
                torch.where(found.isinf(), 0.0, found),
                torch.where(wanted.isinf(), 0.0, wanted),
                rtol=1e-4,
                atol=1e-4,
                equal_nan=True,
            ):
                wrong.append(index)
        evidence[name] = {"branches": len(list(captured.inlined_graph.findAllNodes("prim::If"))), "wrong": wrong}
    return evidence
