"""failed on a hidden case

Calls the model with the values in the dictionary's order, whatever they are called.
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
                model(*trial.values())
            except Exception:
                continue
            return trial
    return example


def dynamic_sizes(model, example):
    inputs = larger(model, example)
    shapes = tuple([Dim.AUTO] * x.dim() for x in inputs.values())
    program = export(model, tuple(inputs.values()), dynamic_shapes=shapes)
    return {
        node.name: [int(text) if text.isdigit() else text for text in map(str, node.meta["val"].shape)]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
