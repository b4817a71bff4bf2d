"""not as ReLU does

Multiplies by a mask: minus infinity becomes nan.
"""

import operator

from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    mask = graph.call_function(operator.gt, (hidden, 0))
    active = graph.call_function(operator.mul, (hidden, mask))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)
