"""values directly after the softmax only

Expects the product right behind the softmax.
"""

PRODUCTS = (aten.matmul.default, aten.bmm.default)
STEPS = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.to.dtype)


def find_attention(graph_module):
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is not aten.softmax.int:
            continue
        above = softmax.args[0]
        while above.target in STEPS:
            above = above.args[0]
        products = [node for node in softmax.users if node.target in PRODUCTS]
        if above.target in PRODUCTS and products:
            found.append((above, softmax, products[0]))
    return found
