"""independent sizes

Gives each place a name of its own.
"""

from torch.export import Dim, export


def dynamic_sizes(model, example):
    inputs = {name: value.repeat([2 if size == 1 else 1 for size in value.shape]) for name, value in example.items()}
    program = export(model, (), inputs, dynamic_shapes={name: [Dim.AUTO] * x.dim() for name, x in inputs.items()})
    return {
        node.name: [
            int(str(size)) if str(size).isdigit() else f"{node.name}_{i}"
            for i, size in enumerate(node.meta["val"].shape)
        ]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
