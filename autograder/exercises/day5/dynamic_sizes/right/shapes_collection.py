"""Positional inputs, a `ShapesCollection`, and the shapes of the placeholders in order."""

import torch


def dynamic_sizes(model, example):
    tensors = [
        torch.zeros([size + 1 if size == 1 else size for size in x.shape], dtype=x.dtype) for x in example.values()
    ]
    shapes = torch.export.ShapesCollection()
    for tensor in tensors:
        shapes[tensor] = {i: torch.export.Dim.AUTO for i in range(tensor.dim())}
    graph = torch.export.export(model, tuple(tensors), dynamic_shapes=shapes).graph
    found = {}
    for node in graph.find_nodes(op="placeholder"):
        if node.target in example:
            sizes = found[node.target] = []
            for size in node.meta["val"].shape:
                number = str(size).isdecimal()
                sizes.append(int(str(size)) if number else f"symbol {size.node.expr}")
    return found
