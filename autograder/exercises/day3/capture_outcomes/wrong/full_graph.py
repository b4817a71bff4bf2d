"""graph breaks forbidden

Asks for one graph or none.
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
        try:
            torch._dynamo.reset()
            torch.compile(model, backend="eager", fullgraph=True)(example)
            return "whole"
        except Exception:
            return "refused"
    try:
        captured = capture(method, model, example)
    except Exception:
        return "refused"
    for x in others:
        try:
            answer = captured(x)
        except Exception:
            continue
        if not torch.allclose(answer, model(x), atol=1e-4):
            return "wrong"
    return "whole"
