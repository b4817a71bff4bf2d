"""traced on each input

Traces again for each input, and finds nothing.
"""

import torch


def branch_evidence(model, inputs):
    scripted = torch.jit.script(model)
    branches = len(scripted.inlined_graph.findAllNodes("prim::If"))
    wrong = [i for i, x in enumerate(inputs) if not torch.allclose(torch.jit.trace(model, (x,))(x), model(x))]
    return {"trace": {"branches": 0, "wrong": wrong}, "script": {"branches": branches, "wrong": []}}
