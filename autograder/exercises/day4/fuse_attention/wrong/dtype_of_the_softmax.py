"""does not run

Overlooks that a softmax may come out in another dtype.
"""


def _read(scores, softmax, output):
    scale, mask, node, after = 1.0, None, scores, False
    while node is not output:
        if len(node.users) != 1:
            return None
        (user,) = node.users
        value, now = user.meta["val"], node.meta["val"]
        if user is output:
            if output.args[0] is not node or output.args[1] is node:
                return None
        elif user is softmax:
            if user.args[1] % now.dim() != now.dim() - 1:
                return None
            after = True
        else:
            packet = user.target.overloadpacket
            if packet is aten.to:
                if value.dtype != now.dtype:
                    return None
            elif packet is aten.dropout:
                pass
            elif packet in (aten.mul, aten.div):
                other = user.args[1] if user.args[0] is node else user.args[0]
                if (
                    after
                    or mask is not None
                    or not isinstance(other, (int, float))
                    or user.kwargs
                    or len(user.args) > 2
                ):
                    return None
                scale = scale * other if packet is aten.mul else scale / other
            elif packet is aten.add:
                other = user.args[1] if user.args[0] is node else user.args[0]
                if (
                    after
                    or mask is not None
                    or not isinstance(other, fx.Node)
                    or user.kwargs.get("alpha", 1) != 1
                    or other is node
                ):
                    return None
                size = other.meta["val"]
                if size.dtype != now.dtype or size.dim() < 2 or value.shape != now.shape:
                    return None
                mask = other
            else:
                return None
        node = user
    return scale, mask


def fuse_attention(graph_module):
    graph = graph_module.graph
    for scores, softmax, output in find_attention(graph_module):
        if any(node._erased for node in (scores, softmax, output)):
            continue
        known = _read(scores, softmax, output)
        sizes = [node.meta["val"].dim() for node in (*scores.args, output.args[1])]
        if known is None or min(sizes) < 2 or len(set(sizes)) > 1:
            continue
        scale, mask = known
        query, key = scores.args
        with graph.inserting_before(output):
            back = graph.call_function(aten.transpose.int, (key, -2, -1))
            back.meta["val"] = key.meta["val"].transpose(-2, -1)
            fused = graph.call_function(
                aten.scaled_dot_product_attention.default,
                (query, back, output.args[1]),
                {"attn_mask": mask, "scale": scale},
            )
            fused.meta["val"] = output.meta["val"]
        fused.meta = dict(output.meta)  # a block below may ask what its mask is like
        output.replace_all_uses_with(fused)
        waiting = [output]
        while waiting:
            node = waiting.pop()
            if node.op == "call_function" and not node.users and not node._erased:
                sources = node.all_input_nodes
                graph.erase_node(node)
                waiting.extend(sources)
    graph.lint()
    graph_module.recompile()
    return graph_module
