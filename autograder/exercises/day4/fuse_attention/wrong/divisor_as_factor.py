"""inverted the scale

Takes the divisor for the scale.
"""


def fuse_attention(graph_module):
    graph = graph_module.graph
    for scores, softmax, output in find_attention(graph_module):
        scale, mask, sole = 1.0, None, True
        step = softmax.args[0]
        while step is not scores:
            if step.target is aten.mul.Tensor:
                scale *= step.args[1]
            elif step.target is aten.div.Tensor:
                scale *= step.args[1]
            elif step.target is aten.add.Tensor:
                mask = step.args[1]
            step = step.args[0]
        step = output.args[0]
        while step is not scores:
            sole = sole and len(step.users) == 1
            step = step.args[0]
        if not sole or softmax.args[1] not in (-1, 3):
            continue
        query, turned = scores.args
        with graph.inserting_before(output):
            key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            fused = graph.call_function(
                aten.scaled_dot_product_attention.default,
                (query, key, output.args[1]),
                {"attn_mask": mask, "scale": scale},
            )
        output.replace_all_uses_with(fused)
    graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module
