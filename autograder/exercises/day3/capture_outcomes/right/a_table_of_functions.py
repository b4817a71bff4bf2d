"""Capturing functions in a dictionary, graphs counted by `torch._dynamo.explain`."""

import contextlib

METHODS = {
    "symbolic_trace": lambda model, x: torch.fx.Tracer().trace(model) and torch.fx.symbolic_trace(model),
    "trace": lambda model, x: torch.jit.trace(model, x, check_trace=False),
    "script": lambda model, x: torch.jit.script(model),
    "export": lambda model, x: torch.export.export(model, (x,)).module(),
    "dynamo": lambda model, x: torch._dynamo.explain(model)(x).graph_count,
}


def predictions():
    order = ("symbolic_trace", "trace", "script", "export", "dynamo")
    lines = {
        "plain": "whole whole whole whole whole",
        "branch": "refused wrong whole refused pieces",
        "loop": "refused wrong whole whole whole",
    }
    return {name: dict(zip(order, line.split(), strict=True)) for name, line in lines.items()}


def measure_capture(method, model, example, others):
    try:
        captured = METHODS[method](model, example)
    except Exception:
        return "refused"
    if isinstance(captured, int):
        return ("whole", "pieces")[captured > 1]
    differences = [0.0]
    for x in others:
        with contextlib.suppress(Exception):
            found, wanted = captured(x), model(x)
            same = found.shape == wanted.shape and torch.equal(found.isnan(), wanted.isnan())
            differences.append((found - wanted).abs().nan_to_num().max().item() if same else float("inf"))
    return "wrong" if max(differences) > 1e-3 else "whole"
