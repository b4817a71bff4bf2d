"""one layer for all

Counts the first layer, and says the same of the others.
"""


def layer_formula(batch, length, width, inner):
    return 2 * batch * length * (4 * width * width + 2 * width * inner + 2 * length * width)


def layer_costs(graph_module):
    place = {aten.linear.default: 0, aten.addmm.default: 1, aten.matmul.default: 0}
    first, layers = 0, set()
    for node in graph_module.graph.nodes:
        layer = layer_of(node)
        layers.add(layer)
        if layer == 0 and node.target in place:
            first += 2 * node.meta["val"].numel() * node.args[place[node.target]].meta["val"].shape[-1]
    return [first] * len(layers - {None})
