"""Begins at the second product and walks up to the first."""

PRODUCTS = {aten.matmul.default, aten.bmm.default}


def chain_above(node):
    """`node`, what it reads first, what that reads first, and so on, through elementwise steps."""
    while isinstance(node, fx.Node):
        yield node
        name = getattr(node.target, "__name__", "").split(".")[0]
        if name not in {"mul", "div", "add", "to", "dropout", "softmax"}:
            return
        node = node.args[0]


def find_attention(graph_module):
    blocks = []
    for last in graph_module.graph.nodes:
        if last.target in PRODUCTS:
            chain = list(chain_above(last.args[0]))
            middle = [node for node in chain if node.target == aten.softmax.int]
            if len(middle) == 1 and chain[-1].target in PRODUCTS:
                blocks.append((chain[-1], middle[0], last))
    return blocks
