"""The learner's side: models, a stopwatch that counts operators, the visible cases, the probe and the pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.exercises.day5.pipeline_passes import PASSES, BrokenPassError

ROUNDS = 5
"""How often each of the two is timed after its warm-up call."""


class Assembled(nn.Module):
    """A network made of the parts that a case names."""

    def __init__(self, width: int, parts: list[str]) -> None:
        super().__init__()
        self.parts = parts
        self.layer, self.norm, self.dropout = nn.Linear(width, width), nn.BatchNorm1d(width), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        for part in self.parts:
            if part == "layer":
                x = self.layer(x) * 3.7
            elif part == "relu":
                x = torch.relu(torch.relu(x) + 0)
            elif part == "centre":
                x = x - x.sum(dim=0) / x.shape[0]
            elif part == "branch":
                x = x if x.sum() > 0 else -x
            elif part == "dropout":
                x = self.dropout(x)
            elif part == "norm":
                x = self.norm(x)
            else:
                x = {"abs": torch.abs, "sin": torch.sin}[part](x)
        return x


class Stopwatch:
    """Times one call, on a machine of which the judge knows everything.

    A call takes as long as it has operators, the first call of each function ten times as long; the machine grows
    slower all the time, and now and then something else takes its time. `events` holds the number of operators and
    the seconds of each call.
    """

    def __init__(self, example: torch.Tensor) -> None:
        self.example, self.events = example, list[list[float]]()
        self._seen: list[Any] = []

    def __call__(self, function: Callable[[torch.Tensor], Any]) -> float:
        """Seconds that `function` takes on the example."""
        with _Counting() as counted, torch.no_grad():
            function(self.example.clone())
        number = len(self.events)
        seconds = 0.001 * counted.operators * (1 + 0.04 * number) * (4 if number in (5, 8) else 1)
        if not any(counted.operators == operators for operators, _ in self.events):
            seconds *= 10
        self.events.append([counted.operators, seconds])
        return seconds


class _Counting(TorchDispatchMode):
    operators = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        return function(*args, **(kwargs or {}))


def visible_cases() -> list[Case]:
    """A model for every kind of pass, one with all of them, and one that cannot be exported."""
    everything = ["drop_abs", "break_halfway", "fold_scale", "drop_neutral", "merge_relus"]
    return [
        _case("two right passes", ["layer", "centre", "relu"], ["drop_neutral", "merge_relus"]),
        _case("a factor into weights", ["layer", "norm", "relu"], ["drop_neutral", "fold_scale"]),
        _case("right on some inputs only", ["abs", "relu", "sin"], ["drop_abs", "drop_neutral"]),
        _case("a pass that raises", ["sin", "relu", "layer"], ["break_halfway", "drop_neutral"]),
        _case("everything", ["layer", "sin", "norm", "relu", "dropout", "abs"], everything, training=True),
        _case("a branch on data", ["layer", "branch"], ["drop_neutral"]),
    ]


def _case(name: str, parts: list[str], passes: list[str], **more: Any) -> Case:
    return Case(name, {"parts": parts, "passes": passes, "width": 4, "training": False, "seed": 1} | more)


def build(case: Case) -> Assembled:
    """The model, as training left it."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = Assembled(given["width"], given["parts"])
    with torch.no_grad():
        for value in (*model.parameters(), model.norm.running_mean, model.norm.running_var):
            assert isinstance(value, torch.Tensor)
            value.uniform_(0.3, 1.0, generator=generator)
    return model.train(given["training"])


def draw(case: Case, batch: int, seed: int, positive: bool = False) -> torch.Tensor:
    """(batch, width), normal, or positive."""
    x = torch.randn(batch, case.parameters["width"], generator=torch.Generator().manual_seed(seed))
    return x.abs() + 0.1 if positive else x


def probe(case: Case, pipeline: Any) -> Evidence:
    """Let the learner's pipeline work; its report, its graph, and what it did to the model and to the clock."""
    model = build(case)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    example = draw(case, 3, 1, positive=True)
    watch = Stopwatch(example)
    passes = {name: PASSES[name] for name in case.parameters["passes"]}
    try:
        result, report = pipeline(model, example, [draw(case, 2, 2), draw(case, 5, 3)], passes, watch)
    except (BrokenPassError, torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError) as error:
        return Evidence({"raised": "pass" if isinstance(error, BrokenPassError) else "capture"})
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode:
        return Evidence({"raised": "capture"})
    after = model.state_dict()
    values: dict[str, Any] = {
        "report": _plain(report),
        "state_kept": all(torch.equal(value, after[name]) for name, value in before.items()),
        "mode_kept": model.training == case.parameters["training"],
        "same_model": result is model,
        "events": watch.events,
    }
    if not isinstance(result, fx.GraphModule):
        return Evidence(values)
    try:
        return Evidence(values, graphs={"graph": encode(result)})
    except GraphFormatError as error:
        return Evidence(values | {"unreadable": str(error)[:300]})


def _plain(report: Any) -> dict[str, Any] | None:
    """The learner's report as JSON has it; `None` when entries are missing or of another kind."""
    try:
        return {
            "captured": bool(report["captured"]),
            "kept": [str(name) for name in report["kept"]],
            "rejected": [str(name) for name in report["rejected"]],
            "operations": [int(number) for number in report["operations"]],
            "seconds": [float(number) for number in report["seconds"]],
        }
    except (KeyError, TypeError, ValueError):
        return None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The report, and for small graphs the result."""
    from fxopt_workbench.pictures import draw as picture

    lines = [f"{case.name}: your report"]
    lines += [f"  {name}: {value}" for name, value in (evidence.values.get("report") or {}).items()]
    graphs = [decode(graph) for graph in evidence.graphs.values()] if case.name == "everything" else []
    return ["\n".join(lines), *(picture(graph, title=f"{case.name}: your result") for graph in graphs)]
