"""froze the first dimension

Makes the sizes of 1 of all inputs a 2, one dimension after the other.
"""

import torch
from torch.export import Dim, export


def dynamic_sizes(model, example):
    inputs = example
    for axis in range(max(x.dim() for x in example.values())):
        trial = {
            name: torch.cat([x] * 2, dim=axis) if axis < x.dim() and x.shape[axis] == 1 else x
            for name, x in inputs.items()
        }
        try:
            model(**trial)
        except Exception:
            continue
        inputs = trial
    program = export(model, (), inputs, dynamic_shapes={name: [Dim.AUTO] * x.dim() for name, x in inputs.items()})
    return {
        node.name: [int(text) if text.isdigit() else text for text in map(str, node.meta["val"].shape)]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
