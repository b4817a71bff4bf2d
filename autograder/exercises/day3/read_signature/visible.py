"""The learner's side: models with inputs of every kind, the visible cases, the probe and what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram, export

from autograder.exchange.evidence import Case, Evidence

KEYS = ("parameters", "buffers", "inputs", "unused")
"""What the learner's answer has to name."""


class Mixed(nn.Module):
    """Layers in a chain; a shift that is trained, one that was measured, one that `state_dict` leaves out."""

    measured: torch.Tensor
    scratch: torch.Tensor

    def __init__(self, layers: int, spare: list[str], persistent: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(layers))
        self.shift = nn.Parameter(torch.zeros(3))
        self.register_buffer("measured", torch.zeros(3))
        self.register_buffer("scratch", torch.ones(3), persistent=persistent)
        self.spare = nn.ModuleDict({name: nn.Linear(3, 2) for name in spare})  # left over; nobody calls them

    def forward(self, signal: torch.Tensor, weight: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """(batch, 3) twice to (batch, 3); `label` is for training only."""
        hidden = (signal - self.measured) * self.scratch
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden * weight + self.shift


class Tangled(nn.Module):
    """Names that begin like others or like the graph's own, values that are handed on, and some that nobody reads."""

    scale_buffer: torch.Tensor
    b_scale: torch.Tensor
    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.p_scale = nn.Parameter(torch.ones(3), requires_grad=False), nn.Parameter(torch.ones(3))
        self.register_buffer("scale_buffer", torch.ones(3))
        self.register_buffer("b_scale", torch.ones(3), persistent=False)
        self.register_buffer("kept", torch.zeros(3))

    def forward(
        self, p_signal: torch.Tensor, signal: torch.Tensor, b_signal: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(batch, 3) three times; the first one is only handed on, as the buffer `kept` is."""
        return p_signal, signal * self.scale + self.b_scale, self.kept


class Listed(nn.Module):
    """Arguments in a list and in a dictionary, and a tensor that is neither parameter nor buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.spare = nn.Linear(3, 3), nn.Parameter(torch.ones(2))
        self.again = self.spare  # the same parameter under a second name
        self.fixed = torch.full((3,), 2.0)
        self.register_buffer("unread", torch.zeros(4))

    def forward(self, pair: list[torch.Tensor], more: dict[str, torch.Tensor]) -> torch.Tensor:
        """(batch, 3) twice, and a dictionary of two of them, of which one is read."""
        return self.layer(pair[0]) * self.fixed + more["left"] + pair[1]


class Bare(nn.Module):
    """No state at all, and a result that no input has a part in."""

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, 3) twice to (3,) and (batch, 3)."""
        return torch.ones(3), second


class Joined(nn.Module):
    """Two parameters whose names look alike in the graph, and an input that is read within a list only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.layer_weight = nn.Linear(3, 3, bias=False), nn.Parameter(torch.ones(3))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(batch, 3) twice to (batch, 6)."""
        return torch.cat([left * self.layer_weight, right], dim=1)


class Penalised(nn.Module):
    """A penalty that only training needs: once dead code is gone, nothing reads the constant and the buffer in it."""

    strength: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.goal = nn.Linear(3, 3), torch.full((3,), 0.5)
        self.register_buffer("strength", torch.ones(3))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        """(batch, 3) to (batch, 3)."""
        _penalty = ((signal - self.goal) * self.strength).square().mean()
        result: torch.Tensor = self.layer(signal)
        return result


class Writing(nn.Module):
    """Buffers and an input that are written: one of them is only overwritten, and the values of no write are read."""

    calls: torch.Tensor
    last: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, signal: torch.Tensor, gain: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """(batch, 3) three times to (batch, 3); `gain` is doubled, and `label` is not read."""
        self.calls.add_(1.0)
        self.last.copy_(torch.ones(1))
        gain.mul_(2.0)
        return torch.tanh(signal)


class Named(nn.Module):
    """An input with the name of a buffer and one with the name of a parameter; names that others contain."""

    scale: torch.Tensor
    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(3))
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("mask", torch.ones(3))

    def forward(
        self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, mask: torch.Tensor, x_next: torch.Tensor
    ) -> torch.Tensor:
        """(batch, 3) five times to (batch, 3); `x`, the input `scale`, the parameter `shift` and the buffer `mask` are
        not read."""
        return x_next * self.scale * mask + shift


class Supervised(nn.Module):
    """Steps that lead nowhere, an input that is read by keyword only, and one with a word that an operation is told."""

    goal: torch.Tensor
    edges: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("goal", torch.zeros(3))
        self.register_buffer("edges", torch.arange(3.0))

    def forward(
        self, signal: torch.Tensor, order: torch.Tensor, floor: torch.Tensor, label: torch.Tensor
    ) -> torch.Tensor:
        """(batch, 3), (3,) and two more (batch, 3) to (batch, 3); `floor` is not read, and `label` for a penalty only,
        as the buffer `goal` is."""
        _penalty = (label - self.goal).square().mean()
        places = torch.searchsorted(self.edges, signal, sorter=order)
        return torch.div(signal + places, 2.0, rounding_mode="floor")


class Judged(nn.Module):
    """A loss, with an input that has the name which the graph's own output has elsewhere."""

    def forward(self, output: torch.Tensor, target: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """(batch, 3) three times to one number; `weights` is not read."""
        return (output - target).square().mean()


KINDS: dict[str, Any] = {
    "tangled": (Tangled, lambda x: (x, x.clone(), x.clone())),
    "listed": (Listed, lambda x: ([x, x.clone()], {"left": x.clone(), "right": x.clone()})),
    "bare": (Bare, lambda x: (x, x.clone())),
    "joined": (Joined, lambda x: (x, x.clone())),
    "named alike": (Named, lambda x: tuple(x.clone() for _ in range(5))),
    "supervised": (Supervised, lambda x: (x, torch.arange(3), x.clone(), x.clone())),
    "cleaned": (Penalised, lambda x: (x,)),
    "writing": (Writing, lambda x: (x, x.clone(), x.clone())),
    "writing, decomposed": (Writing, lambda x: (x, x.clone(), x.clone())),
    "judged": (Judged, lambda x: (x, x.clone(), x.clone())),
}
"""Further models, each with its inputs made of one of shape (batch, 3). No two are one tensor: export joins those."""


def visible_cases() -> list[Case]:
    """One model with a layer left over, and one without."""
    return [
        Case("a layer left over", {"layers": 2, "spare": ["old_head"], "persistent": False}),
        Case("no layer left over", {"layers": 1, "spare": [], "persistent": True}),
    ]


def build(case: Case) -> ExportedProgram:
    """The case's model as an exported program."""
    if "kind" in case.parameters:
        model_class, inputs = KINDS[case.parameters["kind"]]
        program = export(model_class().eval(), inputs(torch.ones(case.parameters["batch"], 3)))
        if case.parameters["kind"] == "writing, decomposed":  # what is written is a new value there, and returned
            return program.run_decompositions({})
        if case.parameters["kind"] == "cleaned":
            program.graph.eliminate_dead_code()
            program.graph_module.recompile()
        return program
    model = Mixed(**case.parameters).eval()
    return export(model, (torch.ones(2, 3), torch.ones(2, 3), torch.ones(2)))


def probe(case: Case, read_signature: Any) -> Evidence:
    """Ask for the inputs of the program, twice: whoever changes it may read something else then."""
    program = build(case)
    evidence = Evidence(listed(read_signature(program)))
    evidence.values["again"] = listed(read_signature(program))
    evidence.values["after"] = described(program)
    return evidence


def described(program: ExportedProgram) -> list[str]:
    """A program in words: what goes in and what comes out, in order, its graph with its notes, and what it holds."""
    signature = program.graph_signature
    notes = [f"{node.name} {sorted(node.meta)}" for node in program.graph.nodes]
    held = [*program.state_dict, *program.constants]
    return [*map(str, (*signature.input_specs, *signature.output_specs)), str(program.graph), *notes, *held]


def listed(found: Any) -> dict[str, Any]:
    """The four lists of an answer, each sorted, or `None` for what is no list of names."""
    if not isinstance(found, Mapping):
        return {"kind": type(found).__name__}
    values: dict[str, Any] = {"kind": "mapping"}
    for key in KEYS:
        names = found.get(key)
        in_order = [] if names is None or isinstance(names, str) else list(names)
        no_names = names is None or isinstance(names, str) or not all(isinstance(name, str) for name in in_order)
        values[key] = None if no_names else sorted(in_order)
    return values


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner read."""
    lines = [f"{case.name}: what you read"]
    lines += [f"  {key:11} {', '.join(evidence.values.get(key) or []) or '(none)'}" for key in KEYS]
    return ["\n".join(lines)]
