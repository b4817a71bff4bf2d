"""The learner's side: models, a stopwatch that counts operators, the visible cases, the probe and the pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.exercises.day5.pipeline_passes import MORE_PASSES, PASSES, BrokenPassError, LostNodeError
from autograder.learner_side.outside import held

ROUNDS = 5
"""How often each of the two is timed after its warm-up call."""


OTHERS = [[2, 2], [5, 3]]
"""Batch and seed of each of the other inputs, where a case does not say."""

UNCAPTURED = frozenset({"branch", "rows"})
"""The parts that the exporter refuses: a branch on data, and a loop over the rows, for which the batch is a number."""


class Assembled(nn.Module):
    """A network made of the parts that a case names.

    Attributes:
        calls: how often one of them ran as a module, and not as a graph.
    """

    calls = 0

    def __init__(self, width: int, parts: list[str]) -> None:
        super().__init__()
        self.parts = parts
        self.layer, self.norm, self.dropout = nn.Linear(width, width), nn.BatchNorm1d(width), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same, or behind the part `total` to (batch,)."""
        Assembled.calls += 1
        for part in self.parts:
            if part == "layer":
                x = self.layer(x) * 3.7
            elif part == "relu":
                x = torch.relu(torch.relu(x) + 0)
            elif part == "centre":
                x = x - x.sum(dim=0) / x.shape[0]
            elif part == "total":
                x = x.sum(dim=1)
            elif part == "branch":
                x = x if x.sum() > 0 else -x
            elif part == "rows":
                x = torch.stack([row - row.mean() for row in x])
            elif part == "dropout":
                x = self.dropout(x)
            elif part == "norm":
                x = self.norm(x)
            else:
                x = {"abs": torch.abs, "sin": torch.sin, "log": torch.log}[part](x)
        return x


class Stopwatch:
    """Times one call, on a machine of which the judge knows everything.

    A call takes as long as it has operators, the first call of each function ten times as long; the machine grows
    slower all the time, and now and then something else takes its time. `record` holds the number of operators and the
    seconds of each call.
    """

    def __init__(self, script: dict[str, Any]) -> None:
        """Prepare a stopwatch.

        Args:
            script: `operator` and `slower` (seconds an operator takes, and what share more with each call), `disturbed`
                (numbers of the calls that take four times as long).
        """
        self._script = script
        self.record: list[list[float]] = []

    def answer(self, question: int) -> float:
        """Seconds that a call of so many operators takes now."""
        if type(question) is not int or not 0 <= question < 10**6:
            raise ValueError("a stopwatch is asked about a number of operators")
        number, script = len(self.record), self._script
        seconds: float = script["operator"] * question * (1 + script["slower"] * number)
        seconds *= 4 if number in script["disturbed"] else 1
        if not any(question == operators for operators, _ in self.record):
            seconds *= 10
        self.record.append([question, seconds])
        return seconds


def instrument(case: Case) -> Stopwatch:
    """The stopwatch of a case, as new."""
    return Stopwatch(case.kept)


def operators_of(function: Callable[[torch.Tensor], Any], example: torch.Tensor) -> int:
    """How many operators a call of the function on (a copy of) the example runs."""
    with _Counting() as counted, torch.no_grad():
        function(example.clone())
    return counted.operators


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
    given = {"parts": parts, "passes": passes, "width": 4, "training": False, "seed": 1} | more
    return Case(name, given, kept={"operator": 0.001, "slower": 0.04, "disturbed": [5, 8]})


def build(case: Case) -> Assembled:
    """The model, as training left it; with `frozen`, its normalisation alone is in evaluation mode."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = Assembled(given["width"], given["parts"])
    with torch.no_grad():
        for value in (*model.parameters(), model.norm.running_mean, model.norm.running_var):
            assert isinstance(value, torch.Tensor)
            value.uniform_(0.3, 1.0, generator=generator)
    model.train(given["training"])
    if given.get("frozen"):
        model.norm.eval()
    return model


def draw(case: Case, batch: int, seed: int, positive: bool = False) -> torch.Tensor:
    """(batch, width), normal, or positive."""
    x = torch.randn(batch, case.parameters["width"], generator=torch.Generator().manual_seed(seed))
    return x.abs() + 0.1 if positive else x


def others_of(case: Case) -> list[torch.Tensor]:
    """The other inputs on which a pass must be right."""
    return [draw(case, batch, seed) for batch, seed in case.parameters.get("others", OTHERS)]


def probe(case: Case, pipeline: Any) -> Evidence:
    """Let the learner's pipeline work; its report, its graph, and what it did to the model and to the clock."""
    model = build(case)
    example = draw(case, 3, 1, positive=True)
    ask, seen = held(lambda: instrument(case))

    modules_timed = 0

    def watch(function: Callable[[torch.Tensor], Any]) -> float:
        nonlocal modules_timed
        before = Assembled.calls
        operators = operators_of(function, example)
        modules_timed += Assembled.calls - before
        return float(ask(operators))

    passes = {name: (PASSES | MORE_PASSES)[name] for name in case.parameters["passes"]}
    try:
        result, report = pipeline(model, example, others_of(case), passes, watch)
    except (BrokenPassError, LostNodeError):
        return Evidence({"raised": "pass"})
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError):
        return Evidence({"raised": "capture"})
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode:
        return Evidence({"raised": "capture"})
    evidence = Evidence({"report": _plain(report), "same_model": result is model, "seen": seen})
    evidence.values["modules timed"] = modules_timed
    evidence.values["training"] = [module.training for module in model.modules()]
    if not UNCAPTURED & set(case.parameters["parts"]):
        # The caller's model as it is now: its weights, and which of its modules are in training.
        evidence.graphs["model"] = encode(fx.symbolic_trace(model))
    if isinstance(result, fx.GraphModule):
        evidence.values["batches"] = _refused_batches(case, result)
        try:
            evidence.graphs["graph"] = encode(result)
        except GraphFormatError as error:
            evidence.values["unreadable"] = str(error)[:300]
    return evidence


LARGER = (7, 64, 700)
"""Batch sizes that the result is called with where it was made: what it promises of sizes does not travel with it."""


def _refused_batches(case: Case, result: fx.GraphModule) -> list[int]:
    refused = []
    for batch in LARGER:
        try:
            with torch.no_grad():
                result(draw(case, batch, 30))
        except Exception:  # a learner's graph fails in any way
            refused.append(batch)
    return refused


def _plain(report: Any) -> dict[str, Any] | None:
    """The learner's report as JSON has it; `None` when entries are missing or of another kind."""
    names = ("kept", "rejected", "operations", "seconds")
    if not isinstance(report, dict) or not all(isinstance(report.get(name), (list, tuple)) for name in names):
        return None
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
    report = evidence.values.get("report") or {}
    lines += [f"  {name}: {value}" for name, value in report.items() if name != "seconds"]
    if report:
        lines.append(f"  seconds: {', '.join(f'{seconds:.4g}' for seconds in report['seconds'])}")
    wanted = case.name == "everything" and "graph" in evidence.graphs
    graphs = [decode(evidence.graphs["graph"])] if wanted else []
    return ["\n".join(lines), *(picture(graph, title=f"{case.name}: your result") for graph in graphs)]
