"""only recordings compared

Takes it for granted that what is no recording is right, or refuses.
"""

PREDICTED = {
    "plain": ("whole", "whole", "whole", "whole", "whole"),
    "branch": ("refused", "wrong", "whole", "refused", "pieces"),
    "loop": ("refused", "wrong", "whole", "whole", "whole"),
}
METHODS = ("symbolic_trace", "trace", "script", "export", "dynamo")


def predictions():
    return {model: dict(zip(METHODS, words, strict=True)) for model, words in PREDICTED.items()}


def captured_by(method, model, example):
    graphs = []

    def counting(graph_module, inputs):
        graphs.append(graph_module)
        return graph_module.forward

    if method == "dynamo":
        torch._dynamo.reset()
        torch.compile(model, backend=counting)(example)
        return model, len(graphs)
    if method == "symbolic_trace":
        return torch.fx.symbolic_trace(model), 1
    if method == "trace":
        return torch.jit.trace(model, (example,)), 1
    if method == "script":
        return torch.jit.script(model), 1
    return torch.export.export(model, (example,)).module(), 1


def same(found, wanted):
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


def measure_capture(method, model, example, others):
    try:
        captured, graphs = captured_by(method, model, example)
    except Exception:
        return "refused"
    if graphs > 1:
        return "pieces"
    if method in ("script", "export"):
        return "whole"
    for x in others:
        try:
            found = captured(x)
        except Exception:
            continue
        if not same(found, model(x)):
            return "wrong"
    return "whole"
