import operator

import torch
from torch import fx, nn

from fxopt_core.graphs import count_operations, is_operation, operation_name


def test_every_dialect_has_a_name():
    root = nn.Module()
    root.conv = nn.Conv2d(1, 1, 1)
    root.weight = nn.Parameter(torch.ones(1))
    graph = fx.Graph()
    x = graph.placeholder("x")
    nodes = [
        graph.call_function(operator.add, (x, x)),
        graph.call_function(torch.conv2d, (x, x)),
        graph.call_function(torch._C._nn.gelu, (x,)),
        graph.call_function(torch.nn.functional.relu, (x,)),
        graph.call_function(torch.ops.aten.addmm.default, (x, x, x)),
        graph.call_function(torch.ops.aten.add, (x, x)),
        graph.call_function(torch.ops.higher_order.cond, (x, x, x, ())),
        graph.call_method("view", (x, -1)),
        graph.call_module("conv", (x,)),
        graph.get_attr("weight"),
    ]
    output = graph.output(tuple(nodes))
    module = fx.GraphModule(root, graph)
    assert [operation_name(node) for node in nodes] == [
        "add",
        "conv2d",
        "gelu",
        "relu",
        "aten.addmm.default",
        "aten.add",
        "cond",
        "method:view",
        "Conv2d",
        "get_attr",
    ]
    assert not any(is_operation(node) for node in (x, nodes[-1], output))
    assert count_operations(module).total() == len(nodes) - 1
