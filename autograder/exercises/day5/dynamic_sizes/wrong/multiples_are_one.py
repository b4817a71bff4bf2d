"""equal though one is larger

Names a size by its symbol, and says of all its multiples only that they are multiples.
"""

import itertools

import torch
from torch.export import Dim, export


def larger(model, example):
    ones = [(name, i) for name, x in example.items() for i, size in enumerate(x.shape) if size == 1]
    for number in range(len(ones), -1, -1):
        for chosen in itertools.combinations(ones, number):
            trial = dict(example)
            for name, i in chosen:
                trial[name] = torch.cat([trial[name]] * 2, dim=i)
            try:
                model(**trial)
            except Exception:
                continue
            return trial
    return example


def dynamic_sizes(model, example):
    inputs = larger(model, example)
    program = export(model, (), inputs, dynamic_shapes={name: [Dim.AUTO] * x.dim() for name, x in inputs.items()})
    return {
        node.name: [
            int(str(size))
            if str(size).isdigit()
            else "multiple of " * (not size.node.expr.is_Symbol) + min(map(str, size.node.expr.free_symbols))
            for size in node.meta["val"].shape
        ]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
