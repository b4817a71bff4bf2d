"""changed the graph

Notes what each node costs in its `meta`, and leaves that there.
"""


def layer_formula(batch, length, width, inner):
    linear = 4 * width * width + 2 * width * inner
    return 2 * batch * length * (linear + 2 * length * width)


def layer_costs(graph_module):
    costs = {}
    for node in graph_module.graph.nodes:
        layer = layer_of(node)
        if layer is None or node.target not in (aten.linear.default, aten.addmm.default, aten.matmul.default):
            continue
        source = node.args[1 if node.target is aten.addmm.default else 0]
        node.meta["operations"] = 2 * node.meta["val"].numel() * source.meta["val"].shape[-1]
        costs[layer] = costs.get(layer, 0) + node.meta["operations"]
    return [costs[layer] for layer in sorted(costs)]
