"""The learner's side: a model of any batch size, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode


class BatchAware(nn.Module):
    """A layer whose result depends on the whole batch, on how large it is, and on the mode."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = torch.relu(self.linear(x))
        if self.training:
            hidden = hidden * 2.0
        return (hidden - hidden.mean(dim=0)) / x.shape[0]


class Interrupted(BatchAware):
    """The same with a graph break in the middle: two graphs at a time."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = torch.relu(self.linear(x))
        torch._dynamo.graph_break()
        return hidden - hidden.mean(dim=0)


class Repeating(BatchAware):
    """Two graphs that read alike, then another one, with a graph break after each."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        x = torch.tanh(x)
        torch._dynamo.graph_break()
        x = torch.tanh(x)
        torch._dynamo.graph_break()
        return x - 1.0


class Branching(BatchAware):
    """Another computation for large batches: the guard says which."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.linear(x)
        return torch.relu(hidden) if x.shape[0] > 4 else torch.tanh(hidden)


class Unrolled(BatchAware):
    """A Python loop over the batch, which a graph can only hold for one batch size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        return torch.stack([self.linear(x[i]).abs() for i in range(x.shape[0])])


class Alternating(BatchAware):
    """Takes turns between two computations, so the same batch size may compile again."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.second = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        self.second = not self.second
        hidden = self.linear(x)
        return torch.relu(hidden) if self.second else torch.tanh(hidden)


class Unchanging(BatchAware):
    """Hands its input back: there is nothing to compile."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        return x


class Guarded(BatchAware):
    """Called on inputs of one size that differ in what else guards look at: gradients asked for, and strides."""


MODELS: dict[str, type[BatchAware]] = {
    "aware": BatchAware,
    "interrupted": Interrupted,
    "repeating": Repeating,
    "branching": Branching,
    "unrolled": Unrolled,
    "unchanging": Unchanging,
    "alternating": Alternating,
    "guarded": Guarded,
}
"""Models whose compilations are counted."""


def visible_cases() -> list[Case]:
    """Batches that repeat and grow, batches that do not change, and a model with a graph break."""
    return [
        Case(
            "six calls, four batch sizes",
            {"width": 11, "batches": [3, 3, 5, 5, 6, 7], "seed": 0, "count afterwards": True},
        ),
        Case("four calls, one batch size", {"width": 13, "batches": [4, 4, 4, 4], "seed": 1}),
        Case(
            "a model with a graph break",
            {
                "width": 12,
                "batches": [2, 6],
                "seed": 2,
                "counted": [["interrupted", [3, 3, 5, 7]], ["aware", [1, 4, 6]]],
            },
        ),
    ]


def build(case: Case) -> tuple[BatchAware, list[torch.Tensor]]:
    """The case's model in its mode, and an input of shape (batch, width) for each batch size; some want gradients."""
    model, inputs = build_counted(case, "aware", case.parameters["batches"])
    for x in inputs:
        x.requires_grad_(case.parameters.get("learned inputs", False))
    return model.train(case.parameters.get("training", False)), inputs


def build_counted(case: Case, name: str, batches: Sequence[int]) -> tuple[BatchAware, list[torch.Tensor]]:
    """One of the models in eval mode, and an input of shape (batch, width) for each batch size."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = MODELS[name](given["width"]).eval()
        inputs = [torch.randn(batch, given["width"]) for batch in batches]
    if name == "guarded":
        inputs = [
            x.requires_grad_() if number % 3 == 1 else x.t().contiguous().t() if number % 3 == 2 else x
            for number, x in enumerate(inputs)
        ]
    return model, inputs


def counted(case: Case) -> list[tuple[str, list[int]]]:
    """The models whose compilations are counted, each with its batch sizes."""
    more = [(str(name), list(batches)) for name, batches in case.parameters.get("counted", [])]
    return [("aware", case.parameters["batches"]), *more]


def probe(case: Case, count_compilations: Any, compile_once: Any) -> Evidence:
    """Let the learner count, twice each; then let the learner compile, and record what reaches the backend."""
    counts = []
    with torch.no_grad():
        for name, batches in counted(case):
            model, inputs = build_counted(case, name, batches)
            torch._dynamo.reset()
            first = int(count_compilations(model, list(inputs)))
            leave_traces(model, inputs)
            counts.append([first, int(count_compilations(model, list(inputs)))])
    torch._dynamo.reset()
    evidence = compiling(*build(case), compile_once, build(case))
    torch._dynamo.reset()
    evidence.values["counts"] = counts
    if case.parameters.get("count afterwards"):
        with torch.no_grad():
            model, inputs = build_counted(case, *counted(case)[0])
            evidence.values["count afterwards"] = int(count_compilations(model, inputs))
    return evidence


def leave_traces(model: BatchAware, inputs: Sequence[torch.Tensor]) -> None:
    """Compile the model as somebody may have done who ran a cell above: Dynamo then knows which sizes have varied."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=lambda graph_module, example_inputs: graph_module.forward)
    for x in inputs:
        compiled(x)


def compiling(
    model: BatchAware,
    inputs: Sequence[torch.Tensor],
    compile_once: Any,
    another: tuple[BatchAware, Sequence[torch.Tensor]],
) -> Evidence:
    """What reaches the backend that `compile_once` is given, and what the compiled model returns.

    Later `another` model is compiled by the same function, as somebody with two models does.
    """
    runs: list[int] = []
    evidence = Evidence(values={"wrong_dimension": False, "runs": runs})
    captured: list[torch.fx.GraphModule] = []
    first_arguments: list[tuple[Any, ...]] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(graph_module)

        def run(*arguments: Any) -> Any:
            if runs:
                runs[-1] += 1
            if not first_arguments:
                first_arguments.append(arguments)
            return graph_module(*arguments)

        return run

    trained: list[torch.Tensor] = []
    compiled = compile_once(model, backend)
    try:
        for number, x in enumerate(inputs):
            runs.append(0)
            output = compiled(x)
            if isinstance(output, torch.Tensor):
                evidence.tensors[f"output{number}"] = output.detach()
                trained += [output] if output.requires_grad else []
    except Exception as error:
        # Marking a dimension that cannot vary is reported by an exception of a private kind.
        if "ConstraintViolation" not in "".join(kind.__name__ for kind in type(error).__mro__):
            raise
        evidence.values["wrong_dimension"] = True
    evidence.tensors |= gradients(model, trained, inputs)
    evidence.values["compilations"] = len(captured)
    if not evidence.values["wrong_dimension"]:
        other, others = another
        compile_once(other, lambda graph_module, example_inputs: graph_module.forward)(others[0])
        runs.append(0)  # of a call that is none of the case's
        compiled(inputs[0])
        runs.pop()
        evidence.values["compiled for another"] = len(captured) - evidence.values["compilations"]
        del captured[evidence.values["compilations"] :]
    if not captured or not first_arguments:
        return evidence
    try:
        evidence.graphs["graph"] = encode(captured[0])
    except GraphFormatError:
        return evidence
    parameters = dict(model.named_parameters())
    evidence.values["placeholders"] = [_role(value, parameters, inputs[0]) for value in first_arguments[0]]
    if not evidence.values["wrong_dimension"]:
        change_weights(model)
        runs.append(0)
        with torch.no_grad():
            later = compiled(inputs[0])
        if isinstance(later, torch.Tensor):
            evidence.tensors["output later"] = later.detach()
            evidence.values["later for autograd"] = later.requires_grad
    return evidence


def change_weights(model: BatchAware) -> None:
    """What a step of training does: other numbers in the same parameters."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)


def gradients(
    model: BatchAware, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The gradients of the model's parameters, and of inputs that want some, which flow back from the outputs."""
    if not outputs:
        return {}
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    parameters |= {f"of input {number}": x for number, x in enumerate(inputs) if x.requires_grad}
    loss = torch.stack([output.square().sum() for output in outputs]).sum()
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    pairs = zip(parameters, found, strict=True)
    return {f"gradient {name}": value for name, value in pairs if value is not None}


def _role(value: Any, parameters: Mapping[str, torch.Tensor], x: torch.Tensor) -> str:
    """What an argument of the graph stands for: a parameter, a copy of one, the input, or one of its sizes."""
    if isinstance(value, torch.Tensor):
        equal = {name: one for name, one in parameters.items() if one.shape == value.shape and torch.equal(one, value)}
        own = next((name for name, one in equal.items() if one is value), None)
        return own or (f"copy of {next(iter(equal))}" if equal else "input")
    return f"size {list(x.shape).index(int(value))}" if int(value) in x.shape else "number"


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The count, and the first graph that reached the backend."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    values = evidence.values
    lines = [f"{case.name}: compilations that you counted, and when asked again"]
    for (name, batches), found in zip(counted(case), values["counts"], strict=True):
        lines.append(f"  {MODELS[name].__name__} with batch sizes {batches}: {found[0]}, then {found[1]}")
    lines.append(f"  graphs that reached the backend with compile_once: {values['compilations']}")
    exhibits: list[Any] = ["\n".join(lines)]
    exhibits += [draw(decode(graph), title=f"{case.name}: your first graph") for graph in evidence.graphs.values()]
    return exhibits
