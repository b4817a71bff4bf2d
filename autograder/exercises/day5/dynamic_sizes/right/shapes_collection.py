"""A `ShapesCollection`, and the shapes of the placeholders in order; sizes of 1 become 2 one by one."""

import itertools

import torch


def larger(model, example):
    ones = [(name, i) for name, x in example.items() for i in range(x.dim()) if x.shape[i] == 1]
    chosen = itertools.chain.from_iterable(itertools.combinations(ones, n) for n in range(len(ones), -1, -1))
    for places in chosen:
        tensors = dict(example)
        for name, i in places:
            tensors[name] = torch.cat([tensors[name]] * 2, dim=i)
        try:
            model(**tensors)
        except Exception:
            continue
        return tensors


def dynamic_sizes(model, example):
    tensors = {name: x.clone() for name, x in larger(model, example).items()}
    shapes = torch.export.ShapesCollection()
    for tensor in tensors.values():
        shapes[tensor] = {i: torch.export.Dim.AUTO for i in range(tensor.dim())}
    graph = torch.export.export(model, (), tensors, dynamic_shapes=shapes).graph
    found = {}
    for node in graph.find_nodes(op="placeholder"):
        if node.target in example:
            sizes = found[node.target] = []
            for size in node.meta["val"].shape:
                number = str(size).isdecimal()
                sizes.append(int(str(size)) if number else f"symbol {size.node.expr}")
    return found
