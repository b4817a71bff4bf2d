"""The reference answer of find_attention, made from its notebook by `make notebooks`."""

import torch
from torch import fx


def find_attention(graph_module: fx.GraphModule) -> list[tuple[fx.Node, fx.Node, fx.Node]]:
    """For each attention block the product of query and key, the softmax, and the product with the values."""
    aten = torch.ops.aten
    products = (aten.matmul.default, aten.bmm.default)
    steps = (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.to.dtype, aten.dropout.default)
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is not aten.softmax.int:
            continue
        above = softmax.args[0]
        while above.target in steps:
            above = above.args[0]
        below = list(softmax.users)
        while below and not any(node.target in products for node in below):
            below = [user for node in below if node.target in steps for user in node.users]
        outputs = [node for node in below if node.target in products]
        if above.target in products and outputs:
            found.append((above, softmax, outputs[0]))
    return found
