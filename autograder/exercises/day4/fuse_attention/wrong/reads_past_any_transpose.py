"""something else

Takes what the transpose before the first product reads for the key, whichever dimensions it exchanges.
"""


def _meta(value):
    return value.meta["val"]


def _read(scores, softmax, output):
    """Scale, mask and steps of a block; None where the operator cannot say it."""
    scale, mask, steps, node = 1.0, None, [], scores
    while node is not output:
        if len(node.users) != 1:
            return None
        steps.append(node)
        before, [node] = node, node.users
        packet = getattr(node.target, "overloadpacket", None)
        if node is output:
            continue
        others = [value for value in node.args[:2] if value is not before]
        behind = softmax in steps
        if node is softmax:
            last = _meta(node).dim() - 1
            dtype = node.args[2] if len(node.args) > 2 else node.kwargs.get("dtype")
            if node.args[1] not in (-1, last) or (dtype is not None and dtype != _meta(before).dtype):
                return None
        elif packet in (aten.mul, aten.div):
            [number] = others if len(others) == 1 else [None]
            if not isinstance(number, (int, float)) or behind or mask is not None:
                return None
            scale = scale * number if packet is aten.mul else scale / number
        elif packet is aten.add:
            [added] = others if len(others) == 1 else [None]
            if not isinstance(added, fx.Node) or behind or mask is not None or node.kwargs.get("alpha", 1) != 1:
                return None
            wide, own = _meta(added), _meta(scores)
            if wide.dtype != own.dtype or wide.dim() < 2 or wide.dim() > own.dim():
                return None
            if any(a not in (1, b) for a, b in zip(reversed(wide.shape), reversed(own.shape))):
                return None
            mask = added
        elif _meta(node).dtype != _meta(before).dtype:
            return None
    if output.args[0] is not steps[-1] or output.args[1] is steps[-1]:
        return None
    return float(scale), mask, steps


def fuse_attention(graph_module):
    graph = graph_module.graph
    for scores, softmax, output in find_attention(graph_module):
        block = _read(scores, softmax, output)
        if block is None:
            continue
        scale, mask, steps = block
        query, turned = scores.args
        value = output.args[1]
        with graph.inserting_before(output):
            if turned.target is aten.transpose.int:
                key = turned.args[0]
            else:
                key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            fused = graph.call_function(
                aten.scaled_dot_product_attention.default,
                (query, key, value),
                {"scale": scale} if mask is None else {"attn_mask": mask, "scale": scale},
            )
        fused.meta["val"] = _meta(output)
        fused.meta = dict(output.meta)  # a block below may ask what its mask is like
        output.replace_all_uses_with(fused)
        graph.erase_node(output)
        for node in reversed(steps):
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not _writes(node):
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module


def _writes(node):
    return node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", True)
