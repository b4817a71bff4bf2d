"""Unravels a block by recursion from the softmax, takes the function of `torch.nn.functional`, and replaces in place."""

import torch.nn.functional as F


class Unsayable(Exception):
    pass


def up(node, product, path):
    """Scale and mask of what a softmax reads; `path` collects the steps."""
    if len(node.users) != 1:
        raise Unsayable
    path.append(node)
    if node is product:
        return 1.0, None
    kind, (first, *others) = node.target, node.args
    if kind in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor):
        if not others or others[0] is first:
            raise Unsayable
        other = others[0]
        if not isinstance(first, fx.Node) or (isinstance(other, fx.Node) and above(other, product, set())):
            first, other = other, first
        scale, mask = up(first, product, path)
        if mask is not None or isinstance(other, fx.Node) != (kind is aten.add.Tensor) or node.kwargs:
            raise Unsayable
        if kind is aten.add.Tensor:
            value, like = other.meta["val"], product.meta["val"]
            if value.dtype != like.dtype or value.dim() < 2 or node.meta["val"].shape != like.shape:
                raise Unsayable
            return scale, other
        return (scale * other if kind is aten.mul.Tensor else scale / other), None
    if node.meta["val"].dtype != first.meta["val"].dtype:
        raise Unsayable
    return up(first, product, path)


def above(node, product, seen):
    if node is product or node in seen or node.op != "call_function":
        return node is product
    seen.add(node)
    if node.target in (aten.matmul.default, aten.bmm.default):
        return False
    return any(above(value, product, seen) for value in node.all_input_nodes)


def fuse_attention(graph_module):
    for first, softmax, last in find_attention(graph_module):
        between, node = [], last.args[0]
        try:
            if first.target is F.scaled_dot_product_attention:
                raise Unsayable  # it ended the block before, which is fused by now
            while node is not softmax:
                if len(node.users) > 1 or node.meta["val"].dtype != softmax.meta["val"].dtype:
                    raise Unsayable
                if node.target in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor):
                    raise Unsayable
                between.append(node)
                node = node.args[0]
            if len(softmax.users) > 1 or len(softmax.args) > 2 or last.args[1] is last.args[0]:
                raise Unsayable
            if softmax.args[1] not in (-1, softmax.meta["val"].dim() - 1):
                raise Unsayable
            path = []
            scale, mask = up(softmax.args[0], first, path)
        except Unsayable:
            continue
        with graph_module.graph.inserting_before(last):
            key = graph_module.graph.call_function(aten.transpose.int, (first.args[1], -1, -2))
        last.target, last.args = F.scaled_dot_product_attention, (first.args[0], key, last.args[1], mask)
        last.kwargs = {"scale": scale}
        for node in [*between, softmax, *path]:
            graph_module.graph.erase_node(node)
    return fx.GraphModule(graph_module, graph_module.graph)
