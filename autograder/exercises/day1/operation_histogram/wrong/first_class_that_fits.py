"""wrong counts

Asks each known class whether the module is one of its instances; those of a subclass are, too.
"""

from collections import Counter

from torch import nn

CLASSES = [one for one in vars(nn).values() if isinstance(one, type) and issubclass(one, nn.Module)]


def class_of(module):
    fitting = [one.__name__ for one in CLASSES if isinstance(module, one) and one is not nn.Module]
    return fitting[0] if fitting else type(module).__name__


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                counts[class_of(graph_module.get_submodule(node.target))] += 1
            elif node.op.startswith("call"):
                counts[getattr(node.target, "__name__", node.target)] += 1
    return counts
