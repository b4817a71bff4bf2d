"""refusal taken for a mistake

Counts an error on another input as a wrong answer.
"""


def predictions():
    words = {"symbolic_trace": "whole", "trace": "whole", "script": "whole", "export": "whole", "dynamo": "whole"}
    return {name: dict(words) for name in ("plain", "branch", "loop")}


def capture(method, model, example):
    if method == "symbolic_trace":
        return torch.fx.symbolic_trace(model)
    if method == "trace":
        return torch.jit.trace(model, example)
    if method == "script":
        return torch.jit.script(model)
    return torch.export.export(model, (example,)).module()


def count_graphs(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return len(graphs)


def measure_capture(method, model, example, others):
    if method == "dynamo":
        return "whole" if count_graphs(model, [example]) == 1 else "pieces"
    try:
        captured = capture(method, model, example)
    except Exception:
        return "refused"
    try:
        return "whole" if all(torch.allclose(captured(x), model(x), atol=1e-4) for x in others) else "wrong"
    except Exception:
        return "wrong"
