"""The learner's side: a model of any batch size, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode


class BatchAware(nn.Module):
    """A layer whose result depends on the whole batch, and on how large it is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = torch.relu(self.linear(x))
        return (hidden - hidden.mean(dim=0)) / x.shape[0]


def visible_cases() -> list[Case]:
    """Batches that repeat and grow, and batches that do not change."""
    return [
        Case("six calls, four batch sizes", {"width": 11, "batches": [3, 3, 5, 5, 6, 7], "seed": 0}),
        Case("four calls, one batch size", {"width": 13, "batches": [4, 4, 4, 4], "seed": 1}),
    ]


def build(case: Case) -> tuple[BatchAware, list[torch.Tensor]]:
    """The case's model in eval mode, and an input of shape (batch, width) for each batch size."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = BatchAware(given["width"]).eval()
        inputs = [torch.randn(batch, given["width"]) for batch in given["batches"]]
    return model, inputs


def probe(case: Case, count_compilations: Any, compile_once: Any) -> Evidence:
    """Let the learner count, twice; then let the learner compile, and record what reaches the backend."""
    model, inputs = build(case)
    torch._dynamo.reset()
    with torch.no_grad():
        counts = [int(count_compilations(model, list(inputs))) for _ in range(2)]
        torch._dynamo.reset()
        evidence = compiling(model, inputs, compile_once)
    torch._dynamo.reset()
    evidence.values["counts"] = counts
    return evidence


def compiling(model: BatchAware, inputs: Sequence[torch.Tensor], compile_once: Any) -> Evidence:
    """What reaches the backend that `compile_once` is given, and what the compiled model returns."""
    evidence = Evidence(values={"wrong_dimension": False})
    captured: list[torch.fx.GraphModule] = []
    first_arguments: list[tuple[Any, ...]] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(graph_module)

        def run(*arguments: Any) -> Any:
            if not first_arguments:
                first_arguments.append(arguments)
            return graph_module(*arguments)

        return run

    compiled = compile_once(model, backend)
    try:
        for number, x in enumerate(inputs):
            output = compiled(x)
            if isinstance(output, torch.Tensor):
                evidence.tensors[f"output{number}"] = output
    except Exception as error:
        # Marking a dimension that cannot vary is reported by an exception of a private kind.
        if "ConstraintViolation" not in "".join(kind.__name__ for kind in type(error).__mro__):
            raise
        evidence.values["wrong_dimension"] = True
    evidence.values["compilations"] = len(captured)
    if not captured or not first_arguments:
        return evidence
    try:
        evidence.graphs["graph"] = encode(captured[0])
    except GraphFormatError:
        return evidence
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    evidence.values["placeholders"] = [_role(value, names, inputs[0]) for value in first_arguments[0]]
    return evidence


def _role(value: Any, names: dict[int, str], x: torch.Tensor) -> str:
    """What an argument of the graph stands for: a parameter, the input, or one of its sizes."""
    if isinstance(value, torch.Tensor):
        return names.get(id(value), "input")
    return f"size {list(x.shape).index(int(value))}" if int(value) in x.shape else "number"


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The count, and the first graph that reached the backend."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    values = evidence.values
    lines = [
        f"{case.name}: batch sizes {case.parameters['batches']}",
        f"  compilations that you counted: {values['counts'][0]}, and when asked again: {values['counts'][1]}",
        f"  graphs that reached the backend with compile_once: {values['compilations']}",
    ]
    exhibits: list[Any] = ["\n".join(lines)]
    exhibits += [draw(decode(graph), title=f"{case.name}: your first graph") for graph in evidence.graphs.values()]
    return exhibits
