"""silent mistake missed

Compares by broadcasting, and takes an answer of another shape for a refusal.
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
    try:
        return bool(((found - model(x)).nan_to_num().abs() < 1e-3).all())
    except RuntimeError:
        return True


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
    return "whole" if all(agrees(run, model, x) for x in others) else "wrong"
