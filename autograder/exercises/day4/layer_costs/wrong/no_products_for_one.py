"""wrong formula

Believes that one text, or one token, needs no attention.
"""


def layer_formula(batch, length, width, inner):
    if batch == 1 or length == 1:
        return 2 * batch * length * width * (4 * width + 2 * inner)
    linear = 4 * width * width + 2 * width * inner
    products = 2 * length * width
    return 2 * batch * length * (linear + products)


def layer_costs(graph_module):
    costs = {}
    for node in graph_module.graph.nodes:
        layer = layer_of(node)
        if layer is None:
            continue
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
