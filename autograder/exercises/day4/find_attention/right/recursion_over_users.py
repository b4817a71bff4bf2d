"""Marks what comes from a product, forwards, by an interpreter of marks."""


def find_attention(graph_module):
    scores, weights, blocks = {}, {}, []
    for node in graph_module.graph.nodes:
        first = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        kind = str(node.target).removeprefix("aten.").split(".")[0]
        if kind in ("matmul", "bmm"):
            if first in weights:
                blocks.append((*weights[first], node))
            scores[node] = node
        elif kind == "softmax" and first in scores:
            weights[node] = (scores[first], node)
        elif kind in ("mul", "div", "add", "to", "dropout"):
            for marks in (scores, weights):
                if first in marks:
                    marks[node] = marks[first]
    return blocks
