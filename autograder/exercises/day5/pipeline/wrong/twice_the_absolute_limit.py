"""kept a wrong pass

Allows twice what is asked where values are small.
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
        program = export(copy.deepcopy(reference), (example,), dynamic_shapes=({0: Dim("batch", min=1)},))
    except Exception:
        return model, {"captured": False, "kept": [], "rejected": [], "operations": (0, 0), "seconds": (0.0, 0.0)}
    captured = result = program.module()
    kept, rejected = [], []
    for name, change in passes.items():
        trial = copy.deepcopy(result)
        try:
            change(trial)
            right = all(
                found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=2e-4)
                for found, wanted in ((trial(x.clone()), reference(x)) for x in [example, *others])
            )
        except Exception:
            right = False
        if right:
            result = trial
        (kept if right else rejected).append(name)
    both, times = (captured, result), ([], [])
    for _ in range(6):
        for graph_module, seconds in zip(both, times, strict=True):
            seconds.append(measure(graph_module))
    return result, {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": (count(captured), count(result)),
        "seconds": tuple(statistics.median(seconds[1:]) for seconds in times),
    }
