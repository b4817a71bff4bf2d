"""Copies node by node into a new graph, with the fused operator where a block ends."""


def fuse_attention(graph_module):
    ends = {}
    for scores, softmax, output in find_attention(graph_module):
        chain, node = [], output.args[0]
        while node is not scores:
            chain.append(node)
            node = node.args[0]
        if softmax.args[1] == -1 and all(len(node.users) == 1 for node in [*chain, scores]):
            ends[output] = (scores, chain)
    new, copies = fx.Graph(), {}
    for node in graph_module.graph.nodes:
        if node not in ends:
            copies[node] = new.node_copy(node, copies.__getitem__)
            continue
        scores, chain = ends[node]
        scale, mask = torch.tensor(1.0, dtype=torch.float64), {}
        for step in reversed(chain):
            if step.target is aten.mul.Tensor:
                scale = scale * step.args[1]
            if step.target is aten.div.Tensor:
                scale = scale / step.args[1]
            if step.target is aten.add.Tensor:
                mask = {"attn_mask": copies[step.args[1]]}
        key = new.call_function(aten.permute.default, (copies[scores.args[1]], [0, 1, 3, 2]))
        copies[node] = new.call_function(
            aten.scaled_dot_product_attention.default,
            (copies[scores.args[0]], key, copies[node.args[1]]),
            {**mask, "scale": scale.item()},
        )
    new.eliminate_dead_code()
    return fx.GraphModule(graph_module, new)
