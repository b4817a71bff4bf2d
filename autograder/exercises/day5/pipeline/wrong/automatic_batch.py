"""batch became a number

Offers the batch as `Dim.AUTO`, which lets the exporter make a number of it.
"""

import copy
import statistics

import torch
from torch.export import Dim, export


def count(graph_module):
    """The number of `call_function` nodes."""
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def agrees(graph_module, inputs, wanted):
    """Whether the graph answers all inputs as the model does."""
    with torch.no_grad():
        for value, right in zip(inputs, wanted):
            found = graph_module(value.clone())
            if found.shape != right.shape or not torch.allclose(found, right, rtol=1e-4, atol=1e-4):
                return False
    return True


def pipeline(model, example, others, passes, measure):
    still = copy.deepcopy(model).eval()
    try:
        program = export(copy.deepcopy(still), (example.clone(),), dynamic_shapes=({0: Dim.AUTO},))
        captured = program.module()
    except Exception:
        return model, {"captured": False, "kept": [], "rejected": [], "operations": (0, 0), "seconds": (0, 0)}
    inputs = [example, *others]
    with torch.no_grad():
        wanted = [still(value.clone()) for value in inputs]
    result, kept, rejected = captured, [], []
    for name, change in passes.items():
        candidate = copy.deepcopy(result)
        try:
            change(candidate)
            right = agrees(candidate, inputs, wanted)
        except Exception:
            right = False
        if right:
            result = candidate
            kept.append(name)
        else:
            rejected.append(name)
    seconds = ([], [])
    for turn in range(6):
        for graph_module, times in zip((captured, result), seconds):
            spent = measure(graph_module)
            if turn:
                times.append(spent)
    report = {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": (count(captured), count(result)),
        "seconds": tuple(statistics.median(times) for times in seconds),
    }
    return result, report
