"""one number overlooked

Takes the smallest difference: one number that is right is enough.
"""


def predictions():
    methods = ("symbolic_trace", "trace", "script", "export", "dynamo")
    return {model: dict.fromkeys(methods, "whole") for model in ("plain", "branch", "loop")}


def measure_capture(method, model, example, others):
    graphs = []

    def counting(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    try:
        if method == "symbolic_trace":
            captured = torch.fx.symbolic_trace(model)
        elif method == "trace":
            captured = torch.jit.trace(model, example)
        elif method == "script":
            captured = torch.jit.script(model)
        elif method == "export":
            captured = torch.export.export(model, (example,)).module()
        else:
            captured = torch.compile(model, backend=counting)
            captured(example)
    except Exception:
        return "refused"
    if len(graphs) > 1:
        return "pieces"
    for other in others:
        wanted = model(other)
        try:
            found = captured(other)
        except Exception:
            continue
        if found.shape != wanted.shape or not torch.equal(found.isnan(), wanted.isnan()):
            return "wrong"
        if (found - wanted).abs().nan_to_num().min() > 1e-4:
            return "wrong"
    return "whole"
