"""silent mistake missed

The first input that is refused ends the comparison.
"""


class Counter:
    def __init__(self):
        self.count = 0

    def __call__(self, graph_module, inputs):
        self.count += 1
        return graph_module


def predictions():
    methods = ["symbolic_trace", "trace", "script", "export", "dynamo"]
    return {name: dict.fromkeys(methods, "pieces") for name in ["plain", "branch", "loop"]}


def agrees(run, model, x):
    try:
        found = run(x)
    except Exception:
        return True
    return torch.allclose(found, model(x), rtol=1e-3, atol=1e-4, equal_nan=True)


def measure_capture(method, model, example, others):
    counter = Counter()
    try:
        match method:
            case "symbolic_trace":
                run = torch.fx.GraphModule(model, torch.fx.Tracer().trace(model))
            case "trace":
                run = torch.jit.trace(model, example_inputs=(example,))
            case "script":
                run = torch.jit.script(model)
            case "export":
                run = torch.export.export(model, (example,), strict=False).module()
            case "dynamo":
                run = model
                torch.compile(model, backend=counter)(example)
    except Exception:
        return "refused"
    if counter.count > 1:
        return "pieces"
    for x in others:
        try:
            found, wanted = run(x), model(x)
        except Exception:
            return "whole"
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-3, atol=1e-4, equal_nan=True):
            return "wrong"
    return "whole"
