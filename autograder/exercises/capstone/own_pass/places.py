"""Where a pass rewrote a graph, and whether a pass of the course rewrites there too."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import fx

from autograder.capstone.template.own_pass.my_capstone.recognise_gelu import RecogniseGelu
from autograder.exchange.evidence import Case
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.capstone.examples import restore_examples
from fxopt_core.passes import GraphEditor, make_pass
from fxopt_core.passes.base import OptimizationPass
from fxopt_core.passes.registry import PRESETS

TEMPLATE = "the template"
BEFORE = (TEMPLATE, *PRESETS["exact"], "conv_batchnorm_folding")
"""What runs before the candidate where its gain beyond the presets is asked for: what leaves plain operators."""

Place = tuple[Any, ...]


def places(original: fx.GraphModule, after: fx.GraphModule) -> dict[str, Any]:
    """By name, the nodes of `original` that are gone from `after` or compute something else there.

    The output is no place; that it reads other nodes follows from these.

    Returns:
        For each place what stands there now: `None`, or target and arguments.
    """
    known = {node.name: node for node in own_nodes(after)}
    found: dict[str, Any] = {}
    for node in own_nodes(original):
        if node.op in ("placeholder", "output"):
            continue
        there = known.get(node.name)
        if there is None:
            found[node.name] = None
        elif _written(there) != _written(node):
            found[node.name] = _written(there)
    return found


def _written(node: fx.Node) -> str:
    """What a node computes, whichever nodes it reads: a reader of what was rewritten is not rewritten itself."""
    given = fx.node.map_arg((node.args, node.kwargs), lambda read: "…")
    return f"{node.op} {node.target} {given}"


def the_courses(name: str) -> list[OptimizationPass]:
    """The passes that a preset, the name of a pass, or `TEMPLATE` means."""
    if name == TEMPLATE:
        return [RecogniseGelu()]
    return [make_pass(one) for one in PRESETS.get(name, (name,))]


@cache
def of_the_course() -> tuple[str, ...]:
    """What a candidate may be a copy of: the template, and each pass of the presets. (Presets are made of these.)"""
    return (TEMPLATE, *dict.fromkeys(name for names in PRESETS.values() for name in names))


def run_all(passes: list[OptimizationPass], graph_module: fx.GraphModule) -> None:
    """Run passes on a graph, one after the other."""
    for one in passes:
        editor = GraphEditor(graph_module)
        one.run(editor)
        editor.finish()


def after_the_course(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A copy after everything in `BEFORE`, until nothing changes any more (three rounds at most)."""
    found = copy.deepcopy(graph_module)
    for _ in range(3):
        before = str(found.graph)
        for name in BEFORE:
            run_all(the_courses(name), found)
        if str(found.graph) == before:
            break
    return found


def courses_places(case: Case, original: fx.GraphModule) -> dict[str, dict[str, Any]]:
    """For each pass of the course, where it rewrites the case's graph. Found once for all candidates."""
    if case.name not in _places or _places[case.name][0] != case.parameters["graph"]:
        found = {}
        for name in of_the_course():
            trial = copy.deepcopy(original)
            restore_examples(trial)
            run_all(the_courses(name), trial)
            found[name] = places(original, trial)
        _places[case.name] = (case.parameters["graph"], found)
    return _places[case.name][1]


_places: dict[str, tuple[Any, dict[str, dict[str, Any]]]] = {}


def travels(graph_module: fx.GraphModule) -> bool:
    """Whether the graph has a JSON form."""
    try:
        decode(encode(graph_module))
    except GraphFormatError:
        return False
    return True


def aten_level(graph_module: fx.GraphModule) -> bool:
    """Whether its calls are operators of ATen, and not functions and modules of torch."""
    calls = [node for node in own_nodes(graph_module) if node.op.startswith("call")]
    return all(node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) for node in calls)
