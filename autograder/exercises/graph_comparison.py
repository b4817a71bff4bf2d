"""For judges: whether two graphs do the same, in everything that a caller can observe."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Evidence
from autograder.exchange.graph_form import ask, decode
from autograder.exchange.graph_form.nodes import all_nodes, inner_graph, own_nodes
from autograder.exchange.graph_form.questions import session
from fxopt_core.graphs import is_operation, operation_name

COMMON = {
    "returned no graph module": (
        "Your function must return a `torch.fx.GraphModule`: the one that it was given, rewritten, or a new one."
    ),
    "malformed graph": (
        "What you return is no well-formed graph. `graph.lint()` tells what is wrong; call it after every rewrite."
    ),
    "forgot recompile": (
        "The graph is rewritten, but the code is not: after changing `graph_module.graph`, call "
        "`graph_module.recompile()`, or the module goes on computing the old thing."
    ),
    "does not run": "The graph that you return does not run: an operation in it fails, though the original ran.",
    "changed the model": (
        "Besides the graph, your function changed the model: whether a module is in training, what is a parameter or a "
        "buffer, and which parameters require gradients must stay as it was."
    ),
    "not idempotent": (
        "Run on its own result, your function changes the graph once more. After one run nothing must be left to do."
    ),
}
"""Misconceptions that every task about a rewrite knows."""


@dataclass(frozen=True)
class Difference:
    """The first thing in which two graphs differ.

    Attributes:
        kind: one of `does not run`, `runs`, `structure`, `values`, `inputs`, `state`, `draws`, `modes`, `sharing`,
            `gradients`.
        place: which output, input or tensor of which call, in words.
        wanted: what was expected there, in words.
        found: what came, in words.
    """

    kind: str
    place: str = ""
    wanted: str = ""
    found: str = ""

    def __str__(self) -> str:
        if not self.wanted:
            return f"what differs: {self.kind}{f', {self.place}' if self.place else ''}"
        return f"what differs: {self.kind}, {self.place}: expected {self.wanted}, came {self.found}"


@dataclass(frozen=True)
class Calls:
    """How a graph is called to be compared.

    Attributes:
        inputs: of each call; buffers keep what a call writes, so that the same inputs twice are a second run.
        trained_on: inputs of a last call, whose gradients are compared; `None` for none.
    """

    inputs: Sequence[Sequence[torch.Tensor]]
    trained_on: Sequence[torch.Tensor] | None = None


def behaviour(graph_module: fx.GraphModule, calls: Calls) -> dict[str, Any]:
    """All that a caller sees of a learner's graph, run where such graphs are run."""
    given = [list(inputs) for inputs in calls.inputs]
    seen: dict[str, Any] = ask(session, graph_module, given, None if calls.trained_on is None else [*calls.trained_on])
    return seen


def own_behaviour(graph_module: fx.GraphModule, calls: Calls) -> dict[str, Any]:
    """All that a caller sees of a graph that the judge made: nothing of a learner is in it, so it runs here."""
    return session(copy.deepcopy(graph_module), calls.inputs, calls.trained_on)


def first_difference(
    wanted: dict[str, Any], found: dict[str, Any], *, relative: float = 0.0, absolute: float = 0.0
) -> Difference | None:
    """The first thing in which two behaviours differ; `None` for nothing.

    Without a tolerance values must be the same to the last bit: 0.0 and -0.0 differ, and one NaN is like another.
    Parameters and buffers count under the names that both graphs have; what the first writes must be in the second.
    """
    for number, (want, got) in enumerate(zip(wanted["calls"], found["calls"], strict=True)):
        if different := _of_one_call(want, got, f"call {number + 1}", wanted["start"], relative, absolute):
            return different
    return _of_gradients(wanted["gradients"], found["gradients"], max(relative, 1e-4), max(absolute, 1e-5))


def _of_one_call(
    want: dict[str, Any],
    got: dict[str, Any],
    call: str,
    start: dict[str, torch.Tensor],
    relative: float,
    absolute: float,
) -> Difference | None:
    if "raised" in got and "raised" not in want:
        return Difference("does not run", call, "a result", str(got["raised"]))
    if "raised" in want:
        if got.get("raised") == want["raised"]:
            return None
        return Difference("runs", call, str(want["raised"]), str(got.get("raised", "a result")))
    if want["structure"] != got["structure"] or len(want["outputs"]) != len(got["outputs"]):
        return Difference("structure", call, f"{len(want['outputs'])} values", f"{len(got['outputs'])} values")
    for kind, what, key in (("values", "output", "outputs"), ("inputs", "input", "inputs")):
        for i, (value, other) in enumerate(zip(want[key], got[key], strict=True)):
            if not same(other, value, relative, absolute):
                return Difference(kind, f"{what} {i} of {call}", *shown(value, other))
    # What this graph leaves alone may have gone; what it has written is part of what it does.
    for name, value in want["state"].items():
        other = got["state"].get(name)
        lost = other is None and not same(value, start.get(name))
        if lost or (other is not None and not same(other, value, relative, absolute)):
            return Difference("state", f"{name} after {call}", *shown(value, other))
    if not torch.equal(want["draws"], got["draws"]):
        return Difference("draws", f"the random stream after {call}")
    if want["modes"] != got["modes"]:
        return Difference("modes", f"gradients and autocast after {call}", str(want["modes"]), str(got["modes"]))
    if sorted(map(tuple, want["shared"])) != sorted(map(tuple, got["shared"])):
        return Difference("sharing", f"which outputs and inputs of {call} are one memory")
    return None


def _of_gradients(want: dict[str, Any], got: dict[str, Any], relative: float, absolute: float) -> Difference | None:
    if not want or "raised" in want:
        return None
    if "raised" in got:
        return Difference("gradients", "the backward pass", "gradients", str(got["raised"]))
    for i, (one, other) in enumerate(zip(want["trained"], got["trained"], strict=True)):
        if one != other:
            said = ["no gradient", "a gradient"]
            return Difference("gradients", f"output {i}", said[one], said[other])
    for name, value in want["gradients"].items():
        if value is None or name not in got["gradients"]:
            continue
        other = got["gradients"][name]
        if other is None or not same(other, value, relative, absolute):
            return Difference("gradients", f"of {name}", *shown(value, other))
    return None


def same(found: Any, wanted: Any, relative: float = 0.0, absolute: float = 0.0) -> bool:
    """Whether a value is the wanted one: of tensors shape, dtype and numbers, to the last bit without a tolerance."""
    if not isinstance(wanted, torch.Tensor):
        return type(found) is type(wanted) and bool(found == wanted)
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if relative or absolute:
        return torch.allclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True)
    if not wanted.is_floating_point():
        return torch.equal(found, wanted)
    equal = (found == wanted) & (found.signbit() == wanted.signbit())
    return bool((equal | (found.isnan() & wanted.isnan())).all())


def shown(wanted: Any, found: Any) -> tuple[str, str]:
    """Two values in a few words, tensors by their first element that differs."""
    if not isinstance(wanted, torch.Tensor) or not isinstance(found, torch.Tensor):
        return _described(wanted), _described(found)
    if wanted.shape != found.shape or wanted.dtype != found.dtype or not wanted.numel():
        return _described(wanted), _described(found)
    unequal = ~((wanted == found) | (wanted.isnan() & found.isnan()) if wanted.is_floating_point() else wanted == found)
    if wanted.is_floating_point():
        unequal |= (wanted == 0) & (found == 0) & (wanted.signbit() != found.signbit())
    if not unequal.any():
        return _described(wanted), _described(found)
    place = tuple(int(i) for i in unequal.nonzero()[0])
    where = f"at {list(place)} " if place else ""
    return f"{where}{_number(wanted[place])}", _number(found[place])


def _number(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return "nothing" if value is None else f"{type(value).__name__} {value}"[:80]


def difference(
    original: fx.GraphModule,
    theirs: fx.GraphModule,
    inputs: Sequence[torch.Tensor],
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> str | None:
    """The kind of the first difference (see `Difference`) between two graphs that run twice on the same inputs."""
    calls = Calls([inputs, inputs])
    wanted = behaviour(copy.deepcopy(original), calls)
    if any("raised" in seen for seen in wanted["calls"]):
        raise RuntimeError(f"the original does not run: {wanted['calls']}")
    found = first_difference(wanted, behaviour(copy.deepcopy(theirs), calls), relative=relative, absolute=absolute)
    return found.kind if found else None


def changed_modules(original: fx.GraphModule, theirs: fx.GraphModule) -> Difference | None:
    """What changed of the model: a module in another mode, a parameter that was none, is a buffer, or is frozen or not.

    Modules, parameters and buffers count under the names that both graphs have; new parameters count, too.
    """
    modes = {name: module.training for name, module in original.named_modules()}
    # A module that is not called travels as a mere holder of parameters, which has no mode.
    called = {str(node.target) for node in all_nodes(theirs) if node.op == "call_module"} | {""}
    for name, module in theirs.named_modules():
        if name in called and modes.get(name, module.training) != module.training:
            mode = ["evaluation", "training"]
            which = f"the module {name!r}" if name else "the graph module"
            return Difference("training mode", which, mode[modes[name]], mode[module.training])
    parameters = dict(original.named_parameters(remove_duplicate=False))
    said = ["frozen", "requires a gradient"]
    for name, parameter in theirs.named_parameters(remove_duplicate=False):
        if name not in parameters:
            return Difference("parameters", name, "no parameter of this name", "a new one")
        if parameter.requires_grad != parameters[name].requires_grad:
            return Difference("training", name, said[parameters[name].requires_grad], said[parameter.requires_grad])
    for name, _ in theirs.named_buffers(remove_duplicate=False):
        if name in parameters:
            return Difference("parameters", name, "a parameter", "a buffer")
    return None


def operations(graph_module: fx.GraphModule) -> int:
    """How many nodes compute something, in this graph and each time that it uses a graph within it."""
    return _operations(graph_module, {})


def _operations(graph_module: fx.GraphModule, known: dict[int, int]) -> int:
    if id(graph_module) not in known:
        known[id(graph_module)] = 0
        total = 0
        for node in own_nodes(graph_module):
            inner = inner_graph(node)
            # What is handed on, to a higher-order operator, counts with each of those who take it.
            total += is_operation(node) if inner is None else _operations(inner, known) * max(1, len(node.users))
        known[id(graph_module)] = total
    return known[id(graph_module)]


def _named(graph_module: fx.GraphModule) -> Counter[str]:
    calls = (node for node in all_nodes(graph_module) if is_operation(node) and inner_graph(node) is None)
    return Counter(operation_name(node) for node in calls)


def _listed(names: Counter[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def unusable(evidence: Evidence) -> tuple[str, str] | None:
    """Why there is no graph to judge, if there is none: a misconception of `COMMON`, and figures."""
    if evidence.values.get("returned") != "GraphModule":
        return "returned no graph module", f"(found {evidence.values['returned']})"
    if "malformed" in evidence.values:
        return "malformed graph", f"({evidence.values['malformed']})"
    return None


def stale(evidence: Evidence, theirs: fx.GraphModule) -> tuple[str, str] | None:
    """Whether the module's code is not that of its graph, or a second run changes the graph: see `COMMON`."""
    if "code" not in evidence.graphs:
        return "forgot recompile", f"(the code no longer runs: {evidence.values.get('code_fails')})"
    given = evidence.graphs["graph"].document
    same_code = evidence.graphs["code"].document == given
    left = _named(theirs)
    run = left if same_code else _named(decode(evidence.graphs["code"]))
    if left != run:
        return (
            "forgot recompile",
            f"(only in the graph: {_listed(left - run)}; only in the code: {_listed(run - left)})",
        )
    again = evidence.graphs.get("again")
    if again is None or (again.document != given and operations(decode(again)) != operations(theirs)):
        return "not idempotent", f"({evidence.values.get('again_fails', 'other operations after the second run')})"
    return None
