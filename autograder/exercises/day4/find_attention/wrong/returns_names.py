"""no list of triples

Returns strings.
"""

PRODUCTS = (aten.matmul.default, aten.bmm.default)
STEPS = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.to.dtype, aten.dropout.default)


def find_attention(graph_module):
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is not aten.softmax.int:
            continue
        above = softmax.args[0]
        while above.target in STEPS:
            above = above.args[0]
        below = list(softmax.users)
        while below and not any(node.target in PRODUCTS for node in below):
            below = [user for node in below if node.target in STEPS for user in node.users]
        products = [node for node in below if node.target in PRODUCTS]
        if above.target in PRODUCTS and products:
            found.append((above.name, softmax.name, products[0].name))
    return found
