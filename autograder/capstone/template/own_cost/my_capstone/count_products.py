"""FLOPs and bytes of matrix products; everything else is named as unknown, views apart."""

import math

import torch
from torch import fx

aten = torch.ops.aten

PRODUCTS = {aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1}
"""Operators, and the place of the left matrix among their arguments."""

VIEWS = {aten.view.default, aten.permute.default, aten.transpose.int, aten.unsqueeze.default, aten.squeeze.dim}


def cost(graph_module: fx.GraphModule) -> dict[str, tuple[int, int] | None]:
    """FLOPs and bytes of each node that calls something, by its name; `None` where they are not known."""
    return {node.name: cost_of(node) for node in graph_module.graph.nodes if node.op.startswith("call")}


def cost_of(node: fx.Node) -> tuple[int, int] | None:
    if node.target in VIEWS:
        return 0, 0
    if node.target not in PRODUCTS:
        return None
    left_node = node.args[PRODUCTS[node.target]]
    assert isinstance(left_node, fx.Node)
    left = left_node.meta["val"]
    result = node.meta["val"]
    # Each element of the result is a sum over the columns of the left matrix, each a multiplication and an addition.
    flops = 2 * result.numel() * left.shape[-1]
    return flops, sum(memory(read.meta["val"]) for read in node.all_input_nodes) + memory(result)


def memory(tensor: torch.Tensor) -> int:
    """Bytes in which the elements lie; an expanded dimension takes one."""
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride]
    return math.prod(sizes) * tensor.element_size()
