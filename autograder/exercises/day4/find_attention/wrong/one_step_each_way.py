"""scores directly before the softmax only

Also: other blocks; raised; values directly after the softmax only
Looks one node up and one node down.
"""


def find_attention(graph_module):
    products = (aten.matmul.default, aten.bmm.default)
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is aten.softmax.int:
            above, below = softmax.args[0], list(softmax.users)
            if above.target in products and any(user.target in products for user in below):
                found.append((above, softmax, next(user for user in below if user.target in products)))
    return found
