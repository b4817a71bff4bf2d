"""values never mixed

Looks at the side before the softmax only.
"""


def find_attention(graph_module):
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is aten.softmax.int:
            above, below = softmax.args[0], softmax
            while above.target in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.to.dtype):
                above = above.args[0]
            if above.target in (aten.matmul.default, aten.bmm.default):
                while below.target not in (aten.matmul.default, aten.bmm.default) and below.users:
                    users = list(below.users)
                    products = [user for user in users if user.target in (aten.matmul.default, aten.bmm.default)]
                    below = (products or users)[0]
                found.append((above, softmax, below))
    return found
