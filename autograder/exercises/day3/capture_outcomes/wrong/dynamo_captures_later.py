"""refusal missed

Calls the compiled model outside of what it catches refusals of: `torch.compile` captures at the first call only.
"""

import torch

CAPTURES = {
    "symbolic_trace": lambda model, example: torch.fx.symbolic_trace(model),
    "trace": lambda model, example: torch.jit.trace(model, (example,)),
    "script": lambda model, example: torch.jit.script(model),
    "export": lambda model, example: torch.export.export(model, (example,)).module(),
}


def predictions():
    return {name: dict.fromkeys([*CAPTURES, "dynamo"], "whole") for name in ("plain", "branch", "loop")}


def measure_capture(method, model, example, others):
    graphs = []

    def counting(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    try:
        if method == "dynamo":
            torch._dynamo.reset()
            captured = torch.compile(model, backend=counting)
        else:
            captured = CAPTURES[method](model, example)
    except Exception:
        return "refused"
    if method == "dynamo":
        try:
            captured(example)
        except Exception:
            pass
        return "pieces" if len(graphs) > 1 else "whole"
    for x in others:
        try:
            answer = captured(x)
        except Exception:
            continue
        wanted = model(x)
        if answer.shape != wanted.shape or not torch.allclose(answer, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "wrong"
    return "whole"
