"""passes left out

Lists a pass that left the code as it was nowhere.
"""

import copy
import statistics

import torch
from torch.export import Dim, export


def count(graph_module):
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def pipeline(model, example, others, passes, measure):
    reference = copy.deepcopy(model).eval()
    try:
        program = export(copy.deepcopy(reference), (example.clone(),), dynamic_shapes=({0: Dim("batch", min=1)},))
        captured = program.module()
    except Exception:
        return model, {"captured": False, "kept": [], "rejected": [], "operations": (0, 0), "seconds": (0, 0)}

    def right(graph):
        with torch.no_grad():
            for value in (example, *others):
                wanted, found = reference(value.clone()), graph(value.clone())
                if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                    return False
        return True

    result, kept, rejected = copy.deepcopy(captured), [], []
    for name, change in passes.items():
        candidate = copy.deepcopy(result)
        try:
            change(candidate)
            fine = right(candidate)
        except Exception:
            fine = False
        if fine and candidate.code == result.code:
            continue
        if fine:
            result = candidate
        (kept if fine else rejected).append(name)
    times = {0: [], 1: []}
    for _ in range(6):
        for which, graph in enumerate((captured, result)):
            times[which].append(measure(graph))
    medians = tuple(statistics.median(times[which][1:]) for which in (0, 1))
    return result, {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": (count(captured), count(result)),
        "seconds": medians,
    }
