"""nan taken for right

Asks whether a value is far off, which is never true of `nan`.
"""


def predictions():
    methods = ("symbolic_trace", "trace", "script", "export", "dynamo")
    return {
        "plain": dict.fromkeys(methods, "whole"),
        "branch": dict(zip(methods, ("refused", "wrong", "whole", "refused", "pieces"))),
        "loop": dict(zip(methods, ("refused", "wrong", "whole", "whole", "whole"))),
    }


def _dynamo(model, example):
    pieces = []

    def counting(graph_module, example_inputs):
        pieces.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=counting)
    compiled(example)
    if len(pieces) > 1:
        raise _InPieces
    return compiled


class _InPieces(Exception):
    pass


CAPTURE = {
    "symbolic_trace": lambda model, example: torch.fx.symbolic_trace(model),
    "trace": lambda model, example: torch.jit.trace(model, example),
    "script": lambda model, example: torch.jit.script(model),
    "export": lambda model, example: torch.export.export(model, (example,)).module(),
    "dynamo": _dynamo,
}


def _same(found, wanted):
    return found.shape == wanted.shape and not bool((found - wanted).abs().max() > 1e-4)


def measure_capture(method, model, example, others):
    try:
        captured = CAPTURE[method](model, example)
    except _InPieces:
        return "pieces"
    except Exception:
        return "refused"
    for other in others:
        try:
            found = captured(other)
        except Exception:
            continue
        if not _same(found, model(other)):
            return "wrong"
    return "whole"
