"""silent mistake missed

Takes nan for right, also where the model gives a number.
"""


def predictions():
    words = {"symbolic_trace": "whole", "trace": "whole", "script": "whole", "export": "whole", "dynamo": "whole"}
    branch = words | {"symbolic_trace": "refused", "trace": "wrong", "export": "refused", "dynamo": "pieces"}
    return {"plain": words, "branch": branch, "loop": words | {"symbolic_trace": "refused", "trace": "wrong"}}


def measure_capture(method, model, example, others):
    graphs = []

    def counting(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    def dynamo():
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=counting)
        compiled(example)
        return compiled

    ways = {
        "symbolic_trace": lambda: torch.fx.symbolic_trace(model),
        "trace": lambda: torch.jit.trace(model, example),
        "script": lambda: torch.jit.script(model),
        "export": lambda: torch.export.export(model, (example,)).module(),
        "dynamo": dynamo,
    }
    try:
        captured = ways[method]()
    except Exception:
        return "refused"
    pieces = len(graphs) > 1
    for other in others:
        wanted = model(other)
        try:
            found = captured(other)
        except Exception:
            continue
        if not _agree(found, wanted):
            return "wrong"
    return "pieces" if pieces else "whole"


def _agree(found, wanted):
    return found.shape == wanted.shape and bool(
        (found.isnan() | torch.isclose(found, wanted, rtol=1e-4, atol=1e-4)).all()
    )
