"""counted a weight once

Leaves out a product whose weight another product of the layer has read.
"""


def layer_formula(batch, length, width, inner):
    linear = 4 * width * width + 2 * width * inner
    products = 2 * length * width
    return 2 * batch * length * (linear + products)


def layer_costs(graph_module):
    first = {aten.linear.default: 0, aten.matmul.default: 0, aten.addmm.default: 1}
    costs, seen = {}, set()
    for node in graph_module.graph.nodes:
        layer = layer_of(node)
        if layer is None or node.target not in first:
            continue
        source, weight = node.args[first[node.target] :][:2]
        if weight.op in ("get_attr", "placeholder"):
            if (layer, weight) in seen:
                continue
            seen.add((layer, weight))
        costs[layer] = costs.get(layer, 0) + 2 * node.meta["val"].numel() * source.meta["val"].shape[-1]
    return [costs[layer] for layer in sorted(costs)]
