"""something else

Also: left the old steps; forgot the scale; lost the mask; fused what another reads; softmax over another dimension
What hint 3 says, as it stands: neither scale nor mask is collected.
"""


def fuse_attention(graph_module):
    graph = graph_module.graph
    for scores, softmax, output in find_attention(graph_module):
        query, turned = scores.args
        with graph.inserting_before(output):
            key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            fused = graph.call_function(aten.scaled_dot_product_attention.default, (query, key, output.args[1]))
        fused.meta = dict(output.meta)  # a block below may ask what its mask is like
        output.replace_all_uses_with(fused)
        graph.erase_node(output)
    graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module
