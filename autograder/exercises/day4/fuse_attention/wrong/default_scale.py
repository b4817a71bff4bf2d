"""forgot the scale

Trusts the default of the operator.
"""


def fuse_attention(graph_module):
    graph = graph_module.graph

    def like(mask, scores, step):
        """Whether the operator takes this mask: of the dtype of the scores, and not larger than they are."""
        if not isinstance(mask, fx.Node) or step.kwargs.get("alpha", 1) != 1:
            return False
        value, wanted = mask.meta["val"], scores.meta["val"]
        return value.dtype == wanted.dtype and value.dim() > 1 and step.meta["val"].shape == wanted.shape

    for scores, softmax, output in find_attention(graph_module):
        scale, mask, node, old = 1.0, None, scores, [scores]
        while node is not output and len(node.users) == 1:
            (step,) = node.users
            other = next((value for value in step.args[:2] if value is not node), None)
            if step is output:
                sayable = other is not None
            elif step is softmax:
                sayable = len(step.args) == 2 and other in (-1, step.meta["val"].dim() - 1)
            elif step.target in (aten.mul.Tensor, aten.div.Tensor):
                sayable = softmax not in old and mask is None and isinstance(other, (int, float))
                if sayable:
                    scale = scale * other if step.target is aten.mul.Tensor else scale / other
            elif step.target is aten.add.Tensor:
                sayable = softmax not in old and mask is None and like(other, scores, step)
                mask = other
            else:  # a dropout that is off, or a cast: to the dtype that was there already
                sayable = step.meta["val"].dtype == node.meta["val"].dtype
            if not sayable:
                break
            node = step
            old.append(step)
        if node is not output:
            continue
        query, turned = scores.args
        with graph.inserting_before(output):
            key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            fused = graph.call_function(
                aten.scaled_dot_product_attention.default,
                (query, key, output.args[1]),
                {"attn_mask": mask},
            )
        fused.meta = dict(output.meta)  # a block below may ask what its mask is like
        output.replace_all_uses_with(fused)
        for step in reversed(old):  # `eliminate_dead_code` would keep a dropout, even one that is off
            graph.erase_node(step)
    graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module
