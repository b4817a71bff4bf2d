"""ones tried alone

Makes all sizes of 1 a 2, else all but one, and gives up then.
"""

import torch
from torch.export import Dim, export


def dynamic_sizes(model, example):
    ones = [(name, i) for name, x in example.items() for i, size in enumerate(x.shape) if size == 1]
    inputs = example
    for left in (None, *ones):
        trial = dict(example)
        for name, i in ones:
            if (name, i) != left:
                trial[name] = torch.cat([trial[name]] * 2, dim=i)
        try:
            model(**trial)
        except Exception:
            continue
        inputs = trial
        break
    program = export(model, (), inputs, dynamic_shapes={name: [Dim.AUTO] * x.dim() for name, x in inputs.items()})
    return {
        node.name: [int(text) if text.isdigit() else text for text in map(str, node.meta["val"].shape)]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
