"""The learner's side: small models that tell the methods apart, the visible cases, the probe and what is shown."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence

METHODS = ("symbolic_trace", "trace", "script", "export", "dynamo")
"""The methods, by the names that the task gives them."""

WORDS = ("whole", "pieces", "wrong", "refused")
"""What a method may come to."""


class Plain(nn.Module):
    """A layer and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        return torch.relu(self.layer(x)).mean(dim=1)


class Branch(Plain):
    """A decision on values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = self.layer(x).mean(dim=1)
        if x.mean() > 0:
            return hidden + 1.0
        return hidden - 1.0


class Loop(Plain):
    """A loop as long as the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = torch.zeros_like(x[:, 0])
        for position in range(x.shape[1]):
            hidden = torch.tanh(self.layer(hidden) + x[:, position])
        return hidden


class Number(Plain):
    """A value that becomes a plain number on the way; with that of another input, a recording gives `nan` for 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        return 0.0 * torch.sqrt(x.mean(dim=1) / float(x.mean()))


class Talkative(Plain):
    """Tells what it does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = torch.relu(self.layer(x))
        print("half way")
        return hidden.mean(dim=1)


class Strict(Plain):
    """Tells what it does, and asks Dynamo for an error rather than for two graphs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = torch.relu(self.layer(x))
        with torch._dynamo.error_on_graph_break(True):
            print("half way")
        return hidden.mean(dim=1)


class Cautious(Plain):
    """Asks what it was given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = self.layer(x).mean(dim=1)
        if isinstance(x, torch.Tensor):
            return torch.tanh(hidden)
        return torch.relu(hidden)


class Variadic(Plain):
    """Calls a helper that takes any number of arguments."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = self.layer(x).mean(dim=1)
        return self.total(hidden, torch.tanh(hidden), torch.relu(hidden))

    def total(self, *values: torch.Tensor) -> torch.Tensor:
        """The sum of some tensors of one shape."""
        return torch.stack(values).sum(dim=0)


class Picky(Variadic):
    """Keeps the length as a plain number, and decides on values. What the two sides add cancels out in a sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4 * length)."""
        hidden, shift = self.total(self.layer(x), x), torch.tensor([1.0, -1.0, 1.0, -1.0])
        hidden = hidden + shift if x.mean() > 0 else hidden - shift
        return hidden.reshape(int(x.shape[0]), 4 * int(x.shape[1]))


class Counting(Variadic):
    """Makes as many rows as there are texts, by a plain number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        return torch.zeros(int(x.shape[0]), 4) + self.total(self.layer(x), x).mean(dim=[0, 1])


class Undefined(Variadic):
    """Asks what it was given, and has no answer where all is below 0; whoever takes the other side has numbers there.

    Where both have numbers, these are the same.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = self.total(self.layer(x), x).mean(dim=1)
        if isinstance(x, torch.Tensor):
            return hidden + 0.0 * torch.log(x.amax())
        return hidden


class Reporting(Counting):
    """Makes its rows likewise, and tells of it. The rows are equal, so one more or less shows in the shape alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        rows = super().forward(x)
        print("half way")
        return torch.tanh(rows)


class Shortcut(Plain):
    """Goes another way when it is scripted or exported, which is right only where nothing is below 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        if not torch.jit.is_scripting():  # apart from the other question, which no script can ask
            x = x if torch.compiler.is_exporting() else x.abs()
        return self.layer(x).mean(dim=1)


class Marginal(Plain):
    """Decides on values what becomes of its last number, and has none for the first.

    A recording that goes the other way gives too small a number in one place out of four, beside `nan`.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, 4) to (batch, 4)."""
        hidden = self.layer(x).mean(dim=1) + torch.sqrt(torch.arange(4) - 1.0)
        if x.mean() > 0:
            return hidden
        return hidden + torch.eye(4)[3]


MODELS: dict[str, type[Plain]] = {
    "plain": Plain,
    "branch": Branch,
    "loop": Loop,
    "number": Number,
    "talkative": Talkative,
    "cautious": Cautious,
    "variadic": Variadic,
    "picky": Picky,
    "counting": Counting,
    "strict": Strict,
    "undefined": Undefined,
    "shortcut": Shortcut,
    "reporting": Reporting,
    "marginal": Marginal,
}
PREDICTED = ("plain", "branch", "loop")
"""The models for which the learner writes a prediction."""


def visible_cases() -> list[Case]:
    """The three models of the prediction."""
    return [Case(name, {"model": name, "length": 4, "seed": i}) for i, name in enumerate(PREDICTED)]


def build(case: Case) -> tuple[Plain, torch.Tensor, list[torch.Tensor]]:
    """The model in eval mode, the example (batch, length, 4) to capture with, and other inputs to compare on."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = MODELS[given["model"]]().eval()
        example = torch.rand(2, given["length"], 4)
        others = [-torch.rand_like(example) - 0.1, 3 * torch.rand_like(example), torch.randn(2, given["length"] + 3, 4)]
        if given.get("refusing first"):  # for this length most captures refuse, and only what comes after it tells
            others = [others[2], torch.rand(5, given["length"], 4), others[0], torch.rand(1, given["length"], 4)]
        if given.get("one text"):  # with which what is made for two has equal rows, but two
            others = [torch.rand(1, given["length"], 4), 3 * torch.rand(1, given["length"], 4)]
        if given.get("nan"):  # of a length that no capture refuses
            others = [torch.full_like(example, float("nan")), others[0]]
        return model, example, others


def probe(case: Case, predictions: Any, measure_capture: Any) -> Evidence:
    """Ask for a word for each method, and for the predictions once."""
    words = {}
    for method in METHODS:
        model, example, others = build(case)
        torch._dynamo.reset()
        # When it refuses, the exporter prints the graph so far; the learner asked for a word.
        with torch.no_grad(), redirect_stderr(io.StringIO()):
            words[method] = str(measure_capture(method, model, example, others))
    torch._dynamo.reset()
    predicted = predictions()
    lines: dict[str, Any] = {}
    if isinstance(predicted, Mapping):
        for name in PREDICTED:
            line = predicted.get(name)
            lines[name] = {str(k): str(v) for k, v in line.items()} if isinstance(line, Mapping) else None
    return Evidence({"words": words, "predicted": lines})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Prediction and measurement side by side."""
    name = case.parameters["model"]
    predicted = evidence.values["predicted"].get(name) or {}
    lines = [f"the model {name!r}:    predicted   measured by you"]
    for method, word in evidence.values["words"].items():
        guess = predicted.get(method, "")
        lines.append(f"  {method:16} {guess:11} {word:10} {'' if guess == word else '← a surprise'}")
    return ["\n".join(line.rstrip() for line in lines)]
