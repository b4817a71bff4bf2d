"""Copies node by node into a new graph, with the fused operator where a block ends."""


def readable(first, softmax, last):
    """Scale, mask and the steps of a block that the operator can say; nothing for any other block."""
    factors, mask, node, steps = [], None, first, [first]
    while len(node.users) == 1:
        user = list(node.users)[0]
        kind = str(user.target)
        rest = [value for value in user.args if value is not node]
        if user is last:
            return (factors, mask, steps) if rest else None
        if user is softmax:
            if rest not in ([-1], [node.meta["val"].dim() - 1]):
                return None
        elif kind in ("aten.mul.Tensor", "aten.div.Tensor") and mask is None and softmax not in steps:
            if isinstance(rest[0] if rest else None, fx.Node) or not rest:
                return None
            factors.append(rest[0] if "mul" in kind else 1 / rest[0])
        elif kind == "aten.add.Tensor" and mask is None and softmax not in steps and not user.kwargs:
            if not (rest and isinstance(rest[0], fx.Node)):
                return None
            mask, scores = rest[0], first.meta["val"]
            shape, given = user.meta["val"].shape, mask.meta["val"]
            if shape != scores.shape or given.dtype != scores.dtype or given.dim() < 2:
                return None
        elif kind.startswith(("aten.to.", "aten.dropout.")) and user.meta["val"].dtype == node.meta["val"].dtype:
            pass
        else:
            return None
        node = user
        steps.append(node)
    return None


def fuse_attention(graph_module):
    ends, gone = {}, set()
    for scores, softmax, output in find_attention(graph_module):
        # Of two blocks with a product in common the first one is taken.
        if scores not in ends and (found := readable(scores, softmax, output)) is not None:
            ends[output] = (scores, *found[:2])
            gone.update(found[2])
    new, copies = fx.Graph(), {}
    for node in graph_module.graph.nodes:
        if node in gone:
            continue
        if node not in ends:
            copies[node] = new.node_copy(node, copies.__getitem__)
            continue
        scores, factors, mask = ends[node]
        scale = math.prod(factors) if factors else 1.0
        dims = list(range(scores.meta["val"].dim()))
        key = new.call_function(aten.permute.default, (copies[scores.args[1]], [*dims[:-2], dims[-1], dims[-2]]))
        copies[node] = new.call_function(
            aten.scaled_dot_product_attention.default,
            (copies[scores.args[0]], key, copies[node.args[1]]),
            ({} if mask is None else {"attn_mask": copies[mask]}) | {"scale": scale},
        )
    return fx.GraphModule(graph_module, new)
