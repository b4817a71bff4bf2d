"""The learner's side: points, their Gaussians with derivatives, and what export and the compiler make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5.native import described, in_words, load, make, tensor
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, source_of

SCHEMA = "u5::gaussian(Tensor x, Tensor y, float width) -> Tensor"

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""What `opcheck` tries."""


def points(x: list[int], y: list[int], width: float, seed: int, **more: Any) -> dict[str, Any]:
    """A call: two sets of points, each of a shape, and the width."""
    how_y = more.pop("how_y", "plain")
    return {
        "x": tensor(*x, seed=seed, **more),
        "y": tensor(*y, seed=seed + 1, **{**more, "how": how_y}),
        "width": width,
        "seed": seed + 2,
    }


def visible_cases() -> list[Case]:
    """Values, both derivatives, what is refused, the meta device, export, the compiler, and `opcheck`."""
    one = points([3, 2], [4, 2], 1.0, 1)
    given: dict[str, dict[str, Any]] = {
        "values": {"calls": [one, points([2, 3], [5, 3], 0.5, 2, how="transposed", how_y="every other")]},
        "empty": {"calls": [points([0, 2], [3, 2], 1.0, 3), points([2, 0], [3, 0], 1.0, 3)]},
        "refused": {"calls": [points([3, 2], [4, 3], 1.0, 4), points([3], [3], 1.0, 4)]},
        "gradients": {"calls": [points([3, 2], [4, 2], 0.7, 5, dtype="float64")]},
        "second derivative": {"calls": [points([3, 2], [2, 2], 1.5, 6, dtype="float64")]},
        "meta device": {"calls": [points([3, 2], [4, 2], 1.0, 7, device="meta")]},
        "exported": {"calls": [points([3, 2], [4, 2], 1.0, 8), points([6, 2], [5, 2], 1.0, 9)]},
        "compiled": {"calls": [points([3, 2], [4, 2], 1.0, 10), points([5, 2], [7, 2], 1.0, 11)]},
        "opcheck": {"calls": [points([3, 2], [4, 2], 0.5, 12)]},
    }
    return [Case(name, {"number": i, "what": name}, kept=one) for i, (name, one) in enumerate(given.items())]


OTHER_WIDTH = 2.0
"""How much wider the call is that comes between another one and its gradients."""


class Layer(nn.Module):
    """The operator in a module, between others."""

    def __init__(self, operator: Callable[..., torch.Tensor], width: float) -> None:
        super().__init__()
        self.operator, self.width = operator, width

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """(n, d) and (m, d) to (n, m)."""
        return torch.sin(self.operator(x * 1.0, y, self.width))


def probe(case: Case, gaussian_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(gaussian_source)


def fresh(case: Case) -> Evidence:
    """Call the operator, in a process of its own."""
    return apart(answers, case)


def answers(case: Case) -> Evidence:
    """Load the library, and do what the case says."""
    try:
        operators = load(case)
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    packet = getattr(operators, "gaussian", None)
    schema = str(packet.default._schema) if packet is not None and "default" in packet.overloads() else None
    if schema != SCHEMA:
        return Evidence({"schema": schema})
    assert packet is not None
    operator = packet.default
    what, calls = case.parameters["what"], case.parameters["calls"]
    values: dict[str, Any] = {"schema": schema}
    tensors: dict[str, torch.Tensor] = {}
    if what in ("exported", "compiled"):
        values |= _captured(what, operator, calls, tensors)
    elif what == "opcheck":
        values["checks"] = _checks(operator, calls[0])
    else:
        values["calls"] = [_called(what, operator, one, tensors, f"{number}") for number, one in enumerate(calls)]
    return Evidence(values, tensors)


def _called(what: str, operator: Any, one: Any, tensors: dict[str, torch.Tensor], name: str) -> dict[str, Any]:
    x, y = make(one["x"]), make(one["y"])
    if what in ("gradients", "second derivative"):
        return _derived(what, operator, one, tensors, name)
    found, raised = attempt(operator, x, y, one["width"])
    if isinstance(found, torch.Tensor) and found.device.type == "cpu":
        tensors[name] = found
    return {"raised": raised, **described(found)}


def derivatives(function: Callable[..., torch.Tensor], one: Any, twice: bool) -> list[torch.Tensor]:
    """The gradients for the sets of points that ask for one; with `twice`, those of a sum over the gradients."""
    x, y = make(one["x"]), make(one["y"])
    asking = [{"x": x, "y": y}[which].requires_grad_() for which in asking_of(one)]
    found = function(x, y, one["width"])
    generator = torch.Generator().manual_seed(one["seed"])
    weights = torch.rand(found.shape, generator=generator, dtype=found.dtype)
    # Another call comes between, forth and back: none of what it leaves behind may show.
    others = [points.detach().flip(0).requires_grad_() for points in (y, x)]
    other = function(*others, OTHER_WIDTH * one["width"])
    first = torch.autograd.grad((found * weights).sum(), asking, create_graph=twice)
    torch.autograd.grad(other.sum(), others)
    if not twice:
        return list(first)
    total = sum((one * torch.rand(one.shape, generator=generator, dtype=one.dtype)).sum() for one in first)
    assert isinstance(total, torch.Tensor)
    return list(torch.autograd.grad(total, asking, allow_unused=True, materialize_grads=True))


def asking_of(one: dict[str, Any]) -> str:
    """Which sets of points of a call ask for gradients."""
    return str(one.get("asks", "xy"))


def _derived(what: str, operator: Any, one: Any, tensors: dict[str, torch.Tensor], name: str) -> dict[str, Any]:
    _, refused = attempt(operator, make(one["x"]), make(one["y"]), one["width"])
    twice = what == "second derivative"
    found, raised = attempt(derivatives, operator, one, twice)
    once = bool(raised) and twice and not attempt(derivatives, operator, one, False)[1]
    for which, gradient in zip(asking_of(one), found or (), strict=False):
        tensors[f"{name}/{which}"] = gradient
    return {"raised": raised, "computes": not refused, "once": once}


def _captured(what: str, operator: Any, calls: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    names: list[str] = []

    def written_down(graph: Any, inputs: Any) -> Any:
        names.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    model = Layer(operator, calls[0]["width"])
    first = make(calls[0]["x"]), make(calls[0]["y"])

    def capture() -> Callable[..., Any]:
        if what == "exported":
            sizes = {"x": {0: Dim("n", min=2, max=1000)}, "y": {0: Dim("m", min=2, max=1000)}}
            program = torch.export.export(model, first, dynamic_shapes=sizes)
            names.extend(
                str(node.target) for node in program.run_decompositions().graph.nodes if node.op == "call_function"
            )
            return program.module()
        from torch._dynamo.backends.common import aot_autograd

        backend = aot_autograd(fw_compiler=written_down, bw_compiler=lambda graph, inputs: graph.forward)
        return torch.compile(model, backend=backend, fullgraph=True, dynamic=True)

    made, raised = attempt(capture)
    seen = []
    for number, one in enumerate(calls if made is not None else []):
        x, y = make(one["x"]), make(one["y"])
        if what == "compiled":
            x.requires_grad_()
            y.requires_grad_()
        found, raised = attempt(made, x, y)
        seen.append(raised)
        if raised or not isinstance(found, torch.Tensor):
            break
        tensors[f"{number}"] = found
        if what == "compiled":
            gradients, raised = attempt(torch.autograd.grad, found.sum(), (x, y))
            seen[-1] = raised
            for which, gradient in zip("xy", gradients or (), strict=False):
                tensors[f"{number}/{which}"] = gradient
    return {"raised": next((one for one in [raised, *seen] if one), ""), "names": names}


def _checks(operator: Any, one: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for check in CHECKS:
        arguments = make(one["x"]).requires_grad_(), make(one["y"]).requires_grad_(), one["width"]
        _, raised = attempt(torch.library.opcheck, operator, arguments, test_utils=check)
        found[check] = raised
    return found


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What each call gave, what was captured, what `opcheck` says."""
    values = evidence.values
    lines = [f"{case.name}:"]
    for one, seen in zip(case.kept["calls"], values.get("calls", ()), strict=False):
        gave = (
            first_line(seen["raised"])
            if seen["raised"]
            else f"shape {seen['shape']}"
            if "shape" in seen
            else "gradients"
        )
        lines.append(f"  {in_words(one['x'])} and {in_words(one['y'])}, width {one['width']:g}: {gave}")
    if "names" in values:
        lines.append(f"  captured: {', '.join(values['names']) or 'nothing'}")
        if values["raised"]:
            lines.append(f"  {first_line(values['raised'])}")
    lines += [f"  {name}: {first_line(text) if text else 'passed'}" for name, text in values.get("checks", {}).items()]
    return ["\n".join(lines)] if len(lines) > 1 else []
