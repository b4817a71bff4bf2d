"""Notes what each node costs in the `meta` of a copy of the graph."""

import copy


def layer_formula(batch, length, width, inner):
    return 2 * batch * length * width * (4 * width + 2 * inner + 2 * length)


def layer_costs(graph_module):
    copied = copy.deepcopy(graph_module)
    products = (aten.linear.default, aten.addmm.default, aten.matmul.default)
    for node in copied.graph.nodes:
        if node.target in products:
            source = node.args[node.target is aten.addmm.default]
            node.meta["operations"] = 2 * node.meta["val"].numel() * source.meta["val"].shape[-1]
    costs = {}
    for node in copied.graph.nodes:
        if (layer := layer_of(node)) is not None:
            costs[layer] = costs.get(layer, 0) + node.meta.get("operations", 0)
    return [costs[layer] for layer in sorted(costs)]
