"""For judges: whether two graphs do the same, in everything that a caller can observe."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Evidence, agrees
from autograder.exchange.graph_form import ask, decode
from autograder.exchange.graph_form.nodes import all_nodes, inner_graph, own_nodes
from autograder.exchange.graph_form.questions import observed, state_of
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
    "not idempotent": (
        "Run on its own result, your function changes the graph once more. After one run nothing must be left to do."
    ),
}
"""Misconceptions that every task about a rewrite knows."""


@dataclass(frozen=True)
class Observation:
    """What a caller can see of one run.

    Attributes:
        outputs: the returned values, flat.
        structure: how they were nested, as text.
        inputs: the arguments after the run.
        state: parameters and buffers after the run, by name.
        draws: the state of the random stream after the run.
        shared: which returned tensors share storage: pairs of positions among outputs and then inputs.
    """

    outputs: list[Any]
    structure: Any
    inputs: list[torch.Tensor]
    state: dict[str, torch.Tensor]
    draws: torch.Tensor
    shared: frozenset[tuple[int, int]]


def observe(graph_module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Observation:
    """Run a graph on copies of `inputs`, where graphs are run. Buffers of the graph module keep what the graph writes.

    What was returned is overwritten afterwards, as a caller might: the next run must not see it.
    """
    seen = ask(observed, graph_module, list(inputs))
    return Observation(**seen | {"shared": frozenset((int(i), int(j)) for i, j in seen["shared"])})


def difference(
    original: fx.GraphModule,
    theirs: fx.GraphModule,
    inputs: Sequence[torch.Tensor],
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> str | None:
    """The first thing in which two graphs differ when they run on the same inputs; `None` for nothing.

    One of `does not run`, `structure`, `values`, `inputs`, `state`, `draws`, `sharing`. Both graphs are run twice.
    """
    before = dict(state_of(copy.deepcopy(original)))
    original, theirs = copy.deepcopy(original), copy.deepcopy(theirs)
    for _ in range(2):
        want = observe(original, inputs)
        try:
            found = observe(theirs, inputs)
        except Exception:  # a learner's graph fails in any way
            return "does not run"
        if want.structure != found.structure:
            return "structure"
        for name, wanted, got in (("values", want.outputs, found.outputs), ("inputs", want.inputs, found.inputs)):
            if not all(_same(value, other, relative, absolute) for value, other in zip(got, wanted, strict=True)):
                return name
        written = [name for name, value in want.state.items() if not torch.equal(value, before[name])]
        if not all(agrees(found.state.get(name), want.state[name], absolute=absolute) for name in written):
            return "state"
        if not torch.equal(want.draws, found.draws):
            return "draws"
        if want.shared != found.shared:
            return "sharing"
    return None


def _same(found: Any, wanted: Any, relative: float, absolute: float) -> bool:
    if not isinstance(wanted, torch.Tensor):
        return type(found) is type(wanted) and bool(found == wanted)
    return agrees(found, wanted, relative=relative, absolute=absolute)


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
    left, run = _named(theirs), _named(decode(evidence.graphs["code"]))
    if left != run:
        return (
            "forgot recompile",
            f"(only in the graph: {_listed(left - run)}; only in the code: {_listed(run - left)})",
        )
    if "again" not in evidence.graphs or operations(decode(evidence.graphs["again"])) != operations(theirs):
        return "not idempotent", f"({evidence.values.get('again_fails', 'other operations after the second run')})"
    return None
