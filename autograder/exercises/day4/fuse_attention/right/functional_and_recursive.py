"""Walks up by recursion, uses the function of `torch.nn.functional`, and replaces the node in place."""

import torch.nn.functional as F


def unravel(node):
    """Scale, mask and product of what a softmax reads."""
    kind = str(node.target)
    if "matmul" in kind or "bmm" in kind:
        return 1.0, None, node
    scale, mask, product = unravel(node.args[0])
    if "mul" in kind:
        return scale * node.args[1], mask, product
    if "div" in kind:
        return scale / node.args[1], mask, product
    return (scale, node.args[1], product) if "add" in kind else (scale, mask, product)


def between(last, first):
    node = last.args[0]
    while node is not first:
        yield node
        node = node.args[0]


def fuse_attention(graph_module):
    for first, softmax, last in find_attention(graph_module):
        scale, mask, product = unravel(softmax.args[0])
        over_keys = softmax.args[1] in (-1, product.meta["val"].dim() - 1)
        if over_keys and all(len(node.users) < 2 for node in [*between(last, first), first]):
            with graph_module.graph.inserting_before(last):
                key = graph_module.graph.call_function(aten.transpose.int, (first.args[1], 2, 3))
            values = last.args[1]
            last.target, last.args = F.scaled_dot_product_attention, (first.args[0], key, values, mask)
            last.kwargs = {"scale": scale}
    graph_module.graph.eliminate_dead_code()
    return fx.GraphModule(graph_module, graph_module.graph)
