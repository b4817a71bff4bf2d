"""For judges: programs that embed what a task is about among what only looks like it.

A `Composer` writes the lines of one program (see `day2.programs.program`). What a task seeks is added line by line; in
between come pure operations in every spelling (functions, methods, operators, modules, keywords, lists, slices), and
what acts: writes in every form, draws, switches of modes, checks, and calls of which nothing is known. All values are
float matrices of 4 × 4, so that any line fits behind any other, and all are bounded, so that nothing hides behind
infinity.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from random import Random
from typing import Any, TypeVar

import torch
from torch import fx

from autograder.exchange.evidence import Case
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import Calls, own_behaviour

PURE = (
    "torch.sin({0})", "{0}.tanh()", "torch.neg({0})", "F.gelu({0})", "{0} * 2", "torch.abs({0})", "F.softplus({0})",
    "torch.add({0}, other={1})", "torch.stack([{0}, {1}]).mean(dim=0)", "torch.cat([{0}, {1}], dim=1)[:, 1:5]",
    "torch.maximum({0}, {1})", "{0} - {1}", "{0}[1:].mean(dim=0) + {1}", "F.softmax(input={0}, dim=-1)",
    "torch.where({0} > 0, {0}, {1})", "torch.clamp({0}, max=1.0, min=-1.0)", "F.silu({0})", "{0}.flip(0)",
    "torch.split({0}, 2, dim=1)[0].mean() * {1}", "F.relu({0})", "torch.sigmoid({0}).mul({1})",
    "{0}[..., None].squeeze(-1)", "self.layer({0})", "self.relu({0})", "torch.tanh({0} @ {1})",
)  # fmt: skip
"""Expressions that only compute, of one or two matrices. `self.relu` is no ReLU."""

WRITES = (
    "{0}.mul_(0.5)", "{0}[0].zero_()", "{0}.t()[1].fill_(0.25)", "F.silu({0}, inplace=True)", "torch.sin({1}, out={0})",
    "torch.relu_({0})", "self.inside({0})", "{0}.view(-1).add_(1.0)", "{0}.copy_({1})", "{0}[1:, ::2].neg_()",
    "F.leaky_relu({0}, 0.2, True)", "torch.add({0}, {1}, out={0})",
)  # fmt: skip
"""Statements that write the first of two matrices: methods, functions, flags, `out=`, modules, through views."""

DRAWS = (
    "torch.rand_like({0})", "F.dropout({0}, 0.5, True)", "torch.bernoulli(torch.sigmoid({0}))", "torch.rand(4, 4)",
    "torch.randn_like(input={0})", "torch.normal({0}, 1.0)",
)  # fmt: skip
"""Expressions that draw from the random stream."""

STATE = {
    "layer": "nn.Linear(4, 4)",
    "relu": "nn.Tanh()",
    "inside": "nn.LeakyReLU(0.1, inplace=True)",
}
"""What the expressions above call."""

SPECIAL = (0.0, -0.0, float("nan"), 1.0, -1.0, float("inf"), 0.5, -float("inf"), 6.0, -2.0, 1e-40)


class Composer:
    """Writes one program.

    Args:
        random: decides everything.
        arguments: the names of the inputs, each a float matrix of 4 × 4.

    Attributes:
        lines: the lines so far.
        values: names of the matrices that may be read.
        state: attributes of the module.
    """

    def __init__(self, random: Random, arguments: Sequence[str] = ("x",)) -> None:
        self.random = random
        self.arguments = list(arguments)
        self.lines: list[str] = []
        self.values = list(arguments)
        self.state = dict(STATE)

    def let(self, expression: str, *, known: bool = True) -> str:
        """A line that gives a value a name, which is returned; unless `known`, no later line reads it by chance."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        if known:
            self.values.append(name)
        return name

    def do(self, statement: str) -> None:
        """A line whose value nobody names."""
        self.lines.append(statement)

    def pick(self) -> str:
        """A value, recent ones more often."""
        return self.random.choice([*self.values, *self.values[-3:]])

    def fill(self, forms: Sequence[str], first: str | None = None) -> str:
        """One of the forms with values put in."""
        return self.random.choice(list(forms)).format(first or self.pick(), self.pick())

    def compute(self, count: int = 1, *, known: bool = True) -> str:
        """Lines that only compute; the last one's name."""
        name = self.pick()
        for _ in range(count):
            name = self.let(self.fill(PURE), known=known)
        return name

    def case(self, name: str, returned: str, **more: Any) -> Case:
        """The program as a case."""
        shapes = ([[4, 4]] * len(self.arguments)) if "inputs" not in more else more.pop("inputs")
        state = self.state | more.pop("state", {})
        used = {key: made for key, made in state.items() if f"self.{key}" in "\n".join([*self.lines, returned])}
        return program(
            name,
            "\n".join([*self.lines, f"return {returned}"]),
            arguments=", ".join(self.arguments),
            state=used,
            inputs=tuple(shapes),
            **{"seed": self.random.randrange(2**31)} | more,
        )


def written_cases(text: str, more: Mapping[str, Mapping[str, Any]], **common: Any) -> list[Case]:
    """Hidden cases from their text: `== name: trap`, then lines of `forward`, an empty line between two cases.

    Args:
        text: all cases.
        more: further entries by name of the case (see `program`); `two` gives a second input `y`.
        common: entries of every case that says nothing else.
    """
    cases = []
    for block in text.strip().split("\n\n"):
        title, _, body = block.partition("\n")
        name, _, trap = title.removeprefix("== ").rpartition(": ")
        given: dict[str, Any] = {"inputs": ([4, 4],)} | common | dict(more.get(name, {}))
        if given.pop("two", False):
            given |= {"arguments": "x, y", "inputs": ([4, 4], [4, 4])}
        cases.append(program(f"hidden {name}", body, trap=trap, **given))
    unknown = set(more) - {case.name.removeprefix("hidden ") for case in cases}
    if unknown:
        raise ValueError(f"no case is called {', '.join(sorted(unknown))}")
    return cases


Fact = TypeVar("Fact")

MOST_KNOWN = 256
"""Of how many cases a judge remembers what it found out: several students' cases of one task, which come in turn."""


def once_a_case(find: Callable[[Case], Fact]) -> Callable[[Case], Fact]:
    """What a judge finds out about a case alone, found once for all answers. Whoever gets it may not change it."""
    known: dict[str, Fact] = {}

    @wraps(find)
    def remembered(case: Case) -> Fact:
        key = json.dumps([case.name, case.parameters], sort_keys=True)
        if key not in known:
            if len(known) >= MOST_KNOWN:
                del known[next(iter(known))]  # the one that has been known for longest
            known[key] = find(case)
        return known[key]

    return remembered


@dataclass(frozen=True)
class Original:
    """A case's graph and what it does.

    Attributes:
        graph_module: the graph; nobody may change it.
        calls: how it and what a learner makes of it are called.
        behaviour: what a caller sees of it.
    """

    graph_module: fx.GraphModule
    calls: Calls
    behaviour: dict[str, Any]


@once_a_case
def original_of(case: Case) -> Original:
    """The case's graph with its behaviour; the case's `batches`, `special` and `trained` say how it is called."""
    graph_module, given = build(case), case.parameters
    calls = calls_of(
        case, batches=given.get("batches", ()), special=given.get("special", True), trained=given.get("trained", True)
    )
    return Original(graph_module, calls, own_behaviour(graph_module, calls))


def calls_of(case: Case, *, batches: Sequence[int] = (), special: bool = True, trained: bool = True) -> Calls:
    """How a case's graph is called to be compared: other values each time, special ones, other batches, gradients."""
    inputs = [inputs_of(case, 11), inputs_of(case, 12)]
    if special:
        inputs.append([specially(value, offset) for offset, value in enumerate(inputs_of(case, 14))])
    inputs += [inputs_of(case, 15 + rows, rows) for rows in batches]
    return Calls(inputs, inputs_of(case, 13) if trained else None)


def specially(value: torch.Tensor, offset: int) -> torch.Tensor:
    """Zeros of both signs, NaN, infinities and boundaries in the place of every other number."""
    if not value.is_floating_point() or not value.numel():
        return value
    flat = value.reshape(-1).clone()
    for i in range(0, flat.numel(), 2):
        flat[i] = SPECIAL[(i // 2 + offset) % len(SPECIAL)]
    return flat.reshape(value.shape)
