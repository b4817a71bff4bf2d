"""counted what is outside

Gives what comes before a layer to the first one.
"""


def layer_formula(batch, length, width, inner):
    linear = 4 * width * width + 2 * width * inner
    products = 2 * length * width
    return 2 * batch * length * (linear + products)


def layer_costs(graph_module):
    costs = {}
    layer = 0
    nodes = list(graph_module.graph.nodes)
    end = max(i for i, n in enumerate(nodes) if layer_of(n) is not None)
    for node in nodes[: end + 1]:
        here = layer_of(node)
        layer = layer if here is None else here
        if node.target is aten.linear.default:
            summed = node.args[0].meta["val"].shape[-1]
        elif node.target is aten.addmm.default:
            summed = node.args[1].meta["val"].shape[-1]
        elif node.target is aten.matmul.default:
            summed = node.args[0].meta["val"].shape[-1]
        else:
            continue
        costs[layer] = costs.get(layer, 0) + 2 * node.meta["val"].numel() * summed
    return [costs[layer] for layer in sorted(costs)]
