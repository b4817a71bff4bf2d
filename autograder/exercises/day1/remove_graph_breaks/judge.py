"""What a model without graph breaks is: one graph with the outputs and gradients of the given model, on both sides."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch.func import functional_call

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import ask, decode, run
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exchange.graph_form.questions import gradients, gradients_of
from autograder.exercises.day1.remove_graph_breaks.visible import MARGIN, BrokenModel, build, in_eager_mode

Tensors = dict[str, torch.Tensor]
Graph = Callable[[Tensors, torch.Tensor], torch.Tensor]

MISCONCEPTIONS = {
    "other state_dict": (
        "Your model's `state_dict` has other names or shapes than the given one, so that saved parameters no longer "
        "fit. Keep the constructor and the names `first` and `second`; change only `forward`."
    ),
    "still prints": (
        "A `print` is still in the way of `fullgraph=True`: text cannot leave in the middle of a graph. Take it out, "
        "or keep it for eager mode with `if not torch.compiler.is_compiling():`."
    ),
    "still branches": (
        "A Python `if` still asks a tensor for its value. While Dynamo captures, that value does not exist yet: let "
        "the graph choose, for example with `torch.where`."
    ),
    "excluded from compilation": (
        "You cut the difficult part out of compilation (`torch.compiler.disable` or `graph_break`). That is itself a "
        "graph break: the part has to be written so that it can be captured."
    ),
    "still breaks": "`torch.compile(model, fullgraph=True)` still meets a graph break in your model.",
    "number taken out": (
        "`.item()` (or `float(...)`) is still there. `fullgraph=True` tolerates it, but a plain `torch.compile` breaks "
        "there and a GPU would have to wait: keep the value as a tensor without dimensions."
    ),
    "hidden from the compiler": (
        "Your graph calls a Python function of yours as one opaque operation. The compiler cannot look inside, so "
        "nothing there is optimised: write the function with operations that Dynamo captures."
    ),
    "not one graph": "Your model must be captured in exactly one graph that runs once for each call.",
    "captured again": (
        "For the second input, of the same size, Dynamo captured your model once more: something in Python changes "
        "from call to call, such as a counter or a list that the model keeps. One graph must serve all calls."
    ),
    "no tensor of the graph returned": "Your model must return the tensor that the graph computes.",
    "other shape or dtype": "The output has another shape or dtype than the given model's.",
    "scale dropped": (
        "You left out the division by `1 + peak`: the value that `.item()` took out of the graph was used afterwards."
    ),
    "scale frozen": (
        "You divide by a constant. The peak of one example became part of the graph; it has to be computed "
        "anew from every input."
    ),
    "scale of each row": (
        "The peak is one number for the whole tensor, the greatest absolute value of all rows together. "
        "Yours is another one for each row."
    ),
    "one side only": (
        "Whatever the input, your graph always takes the same side of the branch. Which side is taken must be decided "
        "while the graph runs, so both must be in it."
    ),
    "relu at exactly 0": (
        "Where the mean is exactly 0, the given model takes the tanh side: it asks whether the mean is *greater* than "
        "0."
    ),
    "choice that spreads NaN": (
        "Where the mean is `nan`, `mean > 0` is False and the given model takes the tanh side. You compute with the "
        "mean (clamped, rounded up, divided), so its `nan` gets into every row. Only a comparison makes a choice of it."
    ),
    "sides swapped": "Your graph takes the relu side when the given model takes the tanh side, and the reverse.",
    "decides for each element": (
        "The given `if` decides once for the whole tensor, by the mean of all its elements. Yours decides for "
        "each element, row or column by itself: the condition must be a tensor without dimensions."
    ),
    "computes something else": "For some inputs your graph does not compute what the given model computes.",
    "eager mode differs": (
        "Run in eager mode, without `torch.compile`, your model computes something else, or passes other gradients on."
    ),
    "gradient lost": (
        "The outputs agree, but a gradient that the given model has is missing or zero in yours: something is detached "
        "(`detach`, `no_grad`, `.data`) that training needs."
    ),
    "gradient through the scale": (
        "The outputs agree, but your gradients differ: `.item()` gave a plain number, through which no gradient flows. "
        "The tensor in its place passes gradients on, unless you `detach()` it."
    ),
    "gradient at zero": (
        "Where a hidden value is exactly 0, a ReLU passes no gradient on; yours does, as `maximum` and `clamp` do. The "
        "outputs agree, but training goes another way: call `torch.relu`."
    ),
    "gradients differ": "The outputs agree, but the gradients are not those of the given model.",
}

BREAKS = (
    ("Data-dependent", "still branches"),
    ("torch.compiler.disable", "excluded from compilation"),
    ("graph_break()", "excluded from compilation"),
    ("`print`", "still prints"),
)
"""What Dynamo's message contains, and what that means. It only chooses words: a break is wrong whatever it says."""

NUMBERS = {"item", "tolist", "_local_scalar_dense"}
"""Operations that turn a tensor into Python numbers."""


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes and parameters, examples on both sides, a batch of one."""
    return [
        Case(
            f"hidden {i}",
            {
                "width": random.randint(3, 7),
                "hidden": random.randint(2, 8),
                "batch": random.randint(2, 5),
                "relu_side": i % 2 == 0,
                "seed": random.randrange(2**31),
                "training": i != 1,
            }
            | ({"batch": 1} if i == 2 else {}),
        )
        for i in range(3)
    ]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    values = evidence.values
    given, inputs = build(case)
    if values["state"] != {name: list(value.shape) for name, value in given.state_dict().items()}:
        yield "other state_dict", f"(yours: {', '.join(values['state'])})"
        return
    if "break" in values:
        text = str(values["break"])
        yield next((name for mark, name in BREAKS if mark in text), "still breaks"), f"(Dynamo: {text.splitlines()[0]})"
        return
    if "opaque" in values:
        yield "hidden from the compiler", f"({values['opaque']})"
        return
    if values["graphs"] != 1 or set(evidence.graphs) != {"graph"}:
        yield "not one graph", f"(graphs captured: {values['graphs']})"
        return
    if type(values["output"]) is not int:
        yield "no tensor of the graph returned", ""
        return
    graph_module = decode(evidence.graphs["graph"])
    if _takes_numbers_out(graph_module):
        yield "number taken out", ""
        return
    findings = list(_compare(case, given, inputs, TheirGraph(graph_module, evidence)))
    yield from findings
    if findings:
        return
    if wrong := _other_in_eager_mode(case, evidence):
        yield "eager mode differs", f"(in {', '.join(wrong)})"
    elif values["taken out in eager mode"]:
        yield "number taken out", "(in eager mode)"
    elif values["graphs for both"] != 1:
        yield "captured again", f"(graphs for two inputs: {values['graphs for both']})"


def _other_in_eager_mode(case: Case, evidence: Evidence) -> list[str]:
    """What the given model returns in eager mode, or passes on as gradients, and the learner's does not."""
    with redirect_stdout(io.StringIO()):
        wanted = in_eager_mode(*build(case))
    wrong = []
    for name, want in wanted.items():
        found = evidence.tensors.get(name)
        same = _same_gradient(want, found) if "gradient" in name else found is not None and _close(want, found)
        wrong += [] if same else [name]
    return wrong


def _takes_numbers_out(graph_module: torch.fx.GraphModule) -> bool:
    return any(
        (node.target if node.op == "call_method" else getattr(node.target, "__name__", "").partition(".")[0]) in NUMBERS
        for node in all_nodes(graph_module)
        if node.op in ("call_method", "call_function")
    )


@dataclass(frozen=True)
class TheirGraph:
    """The learner's graph as a function of parameters and input, and its gradients."""

    graph_module: torch.fx.GraphModule
    evidence: Evidence

    def __call__(self, parameters: Tensors, x: torch.Tensor) -> torch.Tensor:
        """What it returns; without gradients where it runs in another process."""
        result: torch.Tensor = run(self.graph_module, self._arguments(parameters, x))[self.evidence.values["output"]]
        return result

    def gradients(self, parameters: Tensors, x: torch.Tensor) -> list[torch.Tensor | None]:
        """With respect to each parameter and the input."""
        arguments, output = self._arguments(parameters, x), self.evidence.values["output"]
        found: list[torch.Tensor | None] = ask(
            gradients_of, self.graph_module, arguments, output, [*parameters.values(), x]
        )
        return found

    def _arguments(self, parameters: Tensors, x: torch.Tensor) -> list[torch.Tensor]:
        arguments = []
        for name in self.evidence.values["placeholders"]:
            kind, _, rest = str(name).partition(" ")
            if kind == "input":
                arguments.append(x)
            else:
                arguments.append(parameters[rest] if kind == "parameter" else self.evidence.tensors[str(name)])
        return arguments


def _given_output(given: BrokenModel, x: torch.Tensor, parameters: Tensors | None = None) -> torch.Tensor:
    with redirect_stdout(io.StringIO()):
        return functional_call(given, parameters or {}, (x,))


def _close(ours: Any, theirs: torch.Tensor) -> bool:
    """Whether two outputs agree; NaN agrees with NaN only."""
    if (
        not isinstance(ours, torch.Tensor)
        or ours.shape != theirs.shape
        or not torch.equal(ours.isnan(), theirs.isnan())
    ):
        return False
    return agrees(ours.nan_to_num(nan=0.0), theirs.nan_to_num(nan=0.0), relative=1e-4, absolute=1e-5)


def samples_of(case: Case) -> Iterator[tuple[Tensors, torch.Tensor]]:
    """Parameters and inputs of the judge's own: four on each side of the branch, of several kinds and magnitudes.

    The parameters are new ones too, each with `requires_grad`, so that nothing in the graph can hold on to the
    parameters with which it was captured.
    """
    generator = torch.Generator().manual_seed(case.parameters["seed"] + 1)
    batch, width = case.parameters["batch"], case.parameters["width"]
    shapes = {name: value.shape for name, value in build(case)[0].state_dict().items()}
    kinds: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x,
        torch.zeros_like,
        lambda x: -x.abs(),
        lambda x: x * 50.0,
        lambda x: x * 0.01,
        lambda x: x * 3.0,
    ]
    left = {True: 4, False: 4}
    while any(left.values()):
        for kind in kinds:
            parameters = {name: torch.rand(shape, generator=generator) * 2 - 1 for name, shape in shapes.items()}
            x = kind(torch.randn(batch, width, generator=generator))
            hidden = torch.nn.functional.linear(x, parameters["first.weight"], parameters["first.bias"])
            mean = float((hidden / (1.0 + hidden.abs().max())).mean())
            if abs(mean) > MARGIN and left[mean > 0]:
                left[mean > 0] -= 1
                yield {name: value.requires_grad_() for name, value in parameters.items()}, x.requires_grad_()


def balanced(case: Case) -> tuple[Tensors, torch.Tensor]:
    """Parameters and an input with which the mean is exactly 0, by numbers that are exact: the tanh side is taken."""
    generator = torch.Generator().manual_seed(case.parameters["seed"] + 2)
    batch, width, size = (case.parameters[name] for name in ("batch", "width", "hidden"))
    shapes = {name: value.shape for name, value in build(case)[0].state_dict().items()}
    parameters = {name: torch.rand(shape, generator=generator) * 2 - 1 for name, shape in shapes.items()}
    weight = torch.zeros(size, width)
    weight[: size // 2, 0], weight[size // 2 : 2 * (size // 2), 0] = 1.0, -1.0
    x = torch.zeros(batch, width)
    x[:, 0] = 1.0
    parameters |= {"first.weight": weight, "first.bias": torch.zeros(size)}
    return {name: value.requires_grad_() for name, value in parameters.items()}, x.requires_grad_()


def touching(case: Case) -> tuple[Tensors, torch.Tensor]:
    """Parameters and an input with which some hidden values are exactly 0 and the others positive: the relu side."""
    parameters, x = balanced(case)
    with torch.no_grad():
        parameters["first.weight"].clamp_(min=0.0)
    return parameters, x


def overflowing(case: Case) -> tuple[Tensors, torch.Tensor]:
    """Parameters and an input with which one row is infinite: the mean is NaN, and the other rows stay finite."""
    parameters, x = balanced(case)
    with torch.no_grad():
        parameters["first.weight"].fill_(1.0)
        x[0, 0] = torch.inf
    return parameters, x


def _gradients(function: Graph, parameters: Tensors, x: torch.Tensor) -> list[torch.Tensor | None]:
    return gradients(function(parameters, x), [*parameters.values(), x])


def _compare(
    case: Case, given: BrokenModel, inputs: list[torch.Tensor], graph: TheirGraph
) -> Iterator[tuple[str, str]]:
    ordinary = [*samples_of(case), balanced(case), touching(case)]
    samples = [*ordinary, overflowing(case)]
    wanted = [_given_output(given, x, parameters).detach() for parameters, x in samples]
    try:
        found = [graph(parameters, x).detach() for parameters, x in samples]
    except RuntimeError as error:
        yield "computes something else", f"(it raises {error})"
        return
    for ours, theirs in zip(wanted, found, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            yield (
                "other shape or dtype",
                f"({tuple(theirs.shape)} {theirs.dtype}; given: {tuple(ours.shape)} {ours.dtype})",
            )
            return
    wrong = sum(not _close(ours, theirs) for ours, theirs in zip(wanted, found, strict=True))
    if wrong:
        detail = f"(wrong on {wrong} of {len(samples)} inputs)"
        for name in _explain(given, inputs[0], samples, found):
            yield name, detail
        return

    def reference(parameters: Tensors, x: torch.Tensor) -> torch.Tensor:
        return _given_output(given, x, parameters)

    try:
        ours_and_theirs = [(_gradients(reference, *sample), graph.gradients(*sample)) for sample in ordinary]
    except RuntimeError as error:  # a value that backward needs was overwritten in place
        yield "gradients differ", f"(backward raises {error})"
        return
    pairs = [pair for ours, theirs in ours_and_theirs for pair in zip(ours, theirs, strict=True)]
    if all(_same_gradient(ours, theirs) for ours, theirs in pairs):
        return
    away_from_zero = [pair for ours, theirs in ours_and_theirs[:-1] for pair in zip(ours, theirs, strict=True)]
    if all(_same_gradient(ours, theirs) for ours, theirs in away_from_zero):
        yield "gradient at zero", ""
        return
    if any(ours is not None and ours.any() and (theirs is None or not theirs.any()) for ours, theirs in pairs):
        yield "gradient lost", ""
        return
    through = [_gradients(_variant("right", "right", detached=False), *sample) for sample in ordinary]
    others = [
        pair
        for ours, (_, theirs) in zip(through, ours_and_theirs, strict=True)
        for pair in zip(ours, theirs, strict=True)
    ]
    explained = all(_same_gradient(ours, theirs) for ours, theirs in others)
    yield ("gradient through the scale" if explained else "gradients differ"), ""


def _same_gradient(ours: torch.Tensor | None, theirs: torch.Tensor | None) -> bool:
    if ours is None or theirs is None:
        # Absent and zero mean the same to an optimiser.
        return all(gradient is None or not gradient.any() for gradient in (ours, theirs))
    scale = float(ours.abs().max())
    return agrees(ours, theirs, relative=1e-3, absolute=1e-5 * max(1.0, scale))


SCALES = {"right": "", "none": "scale dropped", "frozen": "scale frozen", "rows": "scale of each row"}
SIDES = {
    "right": "",
    "relu": "one side only",
    "tanh": "one side only",
    "zero": "relu at exactly 0",
    "arithmetic": "choice that spreads NaN",
    "swapped": "sides swapped",
    "elements": "decides for each element",
    "rows": "decides for each element",
    "columns": "decides for each element",
}


def _variant(scale: str, side: str, *, detached: bool = True, frozen: float = 0.0) -> Graph:
    """The given computation with one of `SCALES` and one of `SIDES` in place of its own."""

    def compute(parameters: Tensors, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.linear(x, parameters["first.weight"], parameters["first.bias"])
        peaks = {
            "right": hidden.abs().max(),
            "none": torch.zeros(()),
            "frozen": torch.tensor(frozen),
            "rows": hidden.abs().amax(dim=1, keepdim=True),
        }
        peak = peaks[scale].detach() if detached else peaks[scale]
        hidden = hidden / (1.0 + peak)
        takes_relu = {
            "right": hidden.mean() > 0,
            "relu": torch.tensor(True),
            "tanh": torch.tensor(False),
            "zero": hidden.mean() >= 0,
            "swapped": hidden.mean() <= 0,
            "elements": hidden > 0,
            "rows": hidden.mean(dim=1, keepdim=True) > 0,
            "columns": hidden.mean(dim=0, keepdim=True) > 0,
        }
        if side == "arithmetic":
            step = hidden.mean().detach().clamp(0.0, 1.0).ceil()
            hidden = step * torch.relu(hidden) + (1 - step) * torch.tanh(hidden)
        else:
            hidden = torch.where(takes_relu[side], torch.relu(hidden), torch.tanh(hidden))
        return torch.nn.functional.linear(hidden, parameters["second.weight"], parameters["second.bias"])

    return compute


def _explain(
    given: BrokenModel, example: torch.Tensor, samples: list[tuple[Tensors, torch.Tensor]], found: list[torch.Tensor]
) -> list[str]:
    """The misconceptions that explain every output of the learner's graph, where only these do."""
    frozen = float(given.first(example).detach().abs().max())
    explained: list[list[str]] = []
    for scale, scale_name in SCALES.items():
        for side, side_name in SIDES.items():
            variant = _variant(scale, side, frozen=frozen)
            if all(_close(variant(*sample).detach(), theirs) for sample, theirs in zip(samples, found, strict=True)):
                names = [name for name in (scale_name, side_name) if name]
                explained += [] if names in explained else [names]  # of one row, columns are elements
    fewest = min(map(len, explained), default=0)
    simplest = [names for names in explained if len(names) == fewest]  # some mistakes show only beside others
    return simplest[0] if len(simplest) == 1 else ["computes something else"]
