"""silent mistake missed

`allclose` broadcasts: two equal rows are taken for the one that the model gives.
"""


def predictions() -> dict[str, dict[str, str]]:
    """For each model what you expect each method to come to."""
    methods = ("symbolic_trace", "trace", "script", "export", "dynamo")
    return {
        "plain": dict.fromkeys(methods, "whole"),
        "branch": dict(zip(methods, ("refused", "wrong", "whole", "refused", "pieces"), strict=True)),
        "loop": dict(zip(methods, ("refused", "wrong", "whole", "whole", "whole"), strict=True)),
    }


def same_answer(found, wanted) -> bool:
    try:
        return torch.allclose(found.detach().double(), wanted.detach().double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    except RuntimeError:  # shapes that do not fit
        return False


def measure_capture(method: str, model: nn.Module, example: torch.Tensor, others: list[torch.Tensor]) -> str:
    """One of the words whole, pieces, wrong, refused."""
    graphs = []

    def counting(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    try:
        if method == "symbolic_trace":
            captured = torch.fx.symbolic_trace(model)
        elif method == "trace":
            captured = torch.jit.trace(model, example.clone())
        elif method == "script":
            captured = torch.jit.script(model)
        elif method == "export":
            captured = export(model, (example.clone(),)).module()
        else:
            captured = torch.compile(model, backend=counting)
            captured(example.clone())
    except Exception:
        return "refused"
    several = len(graphs) > 1  # before the other inputs: these may compile again
    if several:
        return "pieces"
    for other in others:
        wanted = model(other.clone())
        try:
            found = captured(other.clone())
        except Exception:
            continue
        if not same_answer(found, wanted):
            return "wrong"
    return "whole"
