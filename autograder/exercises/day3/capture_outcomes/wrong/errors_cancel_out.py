"""silent mistake missed

Compares by the mean of the differences, in which too much and too little cancel out.
"""


def predictions():
    methods = ("symbolic_trace", "trace", "script", "export", "dynamo")
    return {name: dict.fromkeys(methods, "whole") for name in ("plain", "branch", "loop")}


def measure_capture(method, model, example, others):
    graphs = []

    def counting(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    captures = {
        "symbolic_trace": lambda: torch.fx.symbolic_trace(model),
        "trace": lambda: torch.jit.trace(model, example),
        "script": lambda: torch.jit.script(model),
        "export": lambda: torch.export.export(model, (example,)).module(),
        "dynamo": lambda: torch.compile(model, backend=counting),
    }
    try:
        run = captures[method]()
        if method == "dynamo":
            run(example)
    except Exception:
        return "refused"
    if len(graphs) > 1:
        return "pieces"
    for other in others:
        wanted = model(other)
        try:
            found = run(other)
        except Exception:
            continue
        if found.shape != wanted.shape or not (found - wanted).nan_to_num().mean().abs() < 1e-4:
            return "wrong"
    return "whole"
