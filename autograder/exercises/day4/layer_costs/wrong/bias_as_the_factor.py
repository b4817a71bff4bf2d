"""sums over addmm's bias

Takes the first argument of every product for its first factor.
"""

from autograder.exercises.day4.layer_costs.visible import layer_of


def layer_formula(batch: int, length: int, width: int, inner: int) -> int:
    """Operations of one layer for `batch` texts of `length` tokens."""
    rows = batch * length
    projections = 4 * (2 * rows * width * width)
    attention = 2 * (2 * rows * length * width)
    feed_forward = 2 * (2 * rows * width * inner)
    return projections + attention + feed_forward


def summed_over(node: fx.Node) -> fx.Node | None:
    """The node whose last size is what the product sums over; `None` where `node` is no product."""
    if node.target in (aten.linear.default, aten.matmul.default, aten.bmm.default, aten.mm.default):
        return node.args[0]
    if node.target in (aten.addmm.default, aten.baddbmm.default):
        return node.args[0]
    return None


def layer_costs(graph_module: fx.GraphModule) -> list[int]:
    """Operations of each layer, counted in the graph."""
    costs = {}
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        layer = layer_of(node)
        if layer is None:
            continue
        costs.setdefault(layer, 0)
        factor = summed_over(node)
        if factor is not None:
            costs[layer] += 2 * math.prod(node.meta["val"].shape) * factor.meta["val"].shape[-1]
    return [costs[layer] for layer in sorted(costs)]
