"""Marks what comes from a product, forwards, by a table of marks."""


def find_attention(graph_module):
    scores, weights, blocks = {}, {}, {}
    for node in graph_module.graph.nodes:
        read = [value for value in node.args if isinstance(value, fx.Node)]
        kind = str(node.target).removeprefix("aten.").split(".")[0]
        if kind in ("matmul", "bmm"):
            for softmax, product in weights.get(read[0], {}).items():
                blocks.setdefault(softmax, (product, softmax, node))
            scores[node] = node
        elif node.target is aten.softmax.int and read[0] in scores:
            weights[node] = {node: scores[read[0]]}
        elif kind in ("mul", "add", "div", "to") or (kind == "dropout" and not node.args[2]):
            for value in reversed(read if kind in ("mul", "add") else read[:1]):
                if value in scores:
                    scores[node] = scores[value]
                weights.setdefault(node, {}).update(weights.get(value, {}))
    return list(blocks.values())
