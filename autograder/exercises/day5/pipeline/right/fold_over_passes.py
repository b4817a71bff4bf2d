"""Small functions, and `functools.reduce` over the passes."""

import copy
import functools

import torch


def capture(model, example):
    try:
        return torch.export.export(model, (example,), dynamic_shapes=[[torch.export.Dim.DYNAMIC, None]]).module()
    except Exception:
        return None


def same(model, other, inputs):
    try:
        pairs = [(model(x), other(x.clone())) for x in inputs]
        return all(
            wanted.shape == found.shape and torch.isclose(found, wanted, rtol=1e-4, atol=1e-4).all()
            for wanted, found in pairs
        )
    except Exception:
        return False


def attempt(change, graph_module):
    graph_module = copy.deepcopy(graph_module)
    try:
        change(graph_module)
    except Exception:
        return None
    return graph_module


def operations(graph_module):
    return len([1 for node in graph_module.graph.nodes if node.op == "call_function"])


def pipeline(model, example, others, passes, measure):
    frozen = copy.deepcopy(model)
    frozen.eval()
    start = capture(copy.deepcopy(frozen), example)
    if start is None:
        return model, dict(captured=False, kept=(), rejected=(), operations=(0, 0), seconds=(0, 0))

    def step(state, item):
        current, kept = state
        trial = attempt(item[1], current)
        good = trial is not None and same(frozen, trial, [example] + others)
        return (trial, [*kept, item[0]]) if good else state

    final, kept = functools.reduce(step, passes.items(), (start, []))
    rounds = [(measure(start), measure(final)) for _ in range(6)][1:]
    seconds = torch.tensor(rounds, dtype=torch.float64).median(dim=0).values.tolist()
    rejected = [name for name in passes if name not in kept]
    return final, {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": [operations(start), operations(final)],
        "seconds": seconds,
    }
