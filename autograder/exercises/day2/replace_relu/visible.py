"""The learner's side: programs with ReLUs in every form, and with what only looks like one."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day2.programs import build, program, rewrite_evidence, show_rewrite


def relu(values: torch.Tensor) -> torch.Tensor:
    """No ReLU but a softsign: a function of somebody's own, which has the name by chance."""
    return functional.softsign(values)


def relu_(values: torch.Tensor) -> torch.Tensor:
    """No ReLU either, and it writes nothing."""
    return functional.tanhshrink(values)


OWN = {functional.softsign: relu, functional.tanhshrink: relu_}
"""Functions of our own that are called like a ReLU, by PyTorch's function that each of them calls."""


def visible_cases() -> list[Case]:
    """One form after the other, then the forms that write, then what must be left alone."""
    return [
        program("functions", "return F.relu(x - 1) + torch.relu(x)", trap="functions"),
        program("a method", "h = x + 1\nreturn h.relu() * 2", trap="methods"),
        program(
            "modules, one of them called twice",
            "h = self.act(self.layer(x))\nreturn self.act(h - 0.2) + self.other(x)",
            state={"layer": "nn.Linear(4, 4)", "act": "nn.ReLU()", "other": "nn.ReLU()"},
            trap="modules",
        ),
        program("the input by keyword", "return F.relu(input=x) - torch.relu(input=-x)", trap="keyword"),
        program("a method that writes", "h = x * 2\nh.relu_()\nreturn h - x", trap="in place"),
        program(
            "functions and modules that write",
            # The last one is read by nobody: what an answer leaves then tells why.
            "h = x * 2\nF.relu(h, inplace=True)\ng = x - 1\nself.act(g)\ntorch.relu(g)\nreturn h + g",
            state={"act": "nn.ReLU(inplace=True)"},
            trap="in place, by flag",
        ),
        program("a write into an input", "y = torch.relu_(x)\nreturn y + 1", trap="in place"),
        program(
            "what only looks like it",
            "a = F.relu6(x * 5)\nb = self.relu(x)\nreturn a + b.sigmoid() + self.leaky(x) + torch.relu(x)",
            state={"relu": "nn.Identity()", "leaky": "nn.LeakyReLU(0.3)"},
            trap="look-alikes",
        ),
        program(
            "a ReLU that ends at 6",
            "return self.six(x * 5) + self.act(x)",
            state={"six": "nn.ReLU6()", "act": "nn.ReLU()"},
            trap="look-alikes",
        ),
    ]


def graph_of(case: Case) -> fx.GraphModule:
    """The case's graph: with `named` functions get all by keyword, the last first.

    With `own` the learner's graph calls functions of ours, which call those that stand here.
    """
    return _respelled(build(case), case.parameters)


def _respelled(graph_module: fx.GraphModule, given: Mapping[str, Any]) -> fx.GraphModule:
    for node in graph_module.graph.nodes:
        if "named" in given and node.op == "call_function" and isinstance(node.target, FunctionType):
            bound = signature(node.target).bind(*node.args, **node.kwargs)
            node.args, node.kwargs = (), dict(reversed(bound.arguments.items()))
    graph_module.recompile()
    return graph_module


def _retargeted(graph_module: fx.GraphModule, targets: Mapping[Any, Any]) -> None:
    """Let each call of some functions call another one instead."""
    for node in graph_module.graph.nodes:
        if node.op == "call_function":
            node.target = targets.get(node.target, node.target)


def probe(case: Case, replace_relu: Any) -> Evidence:
    """What the learner's function makes of the case's graph, and whether the modules that it was given still are."""
    given: dict[str, Any] = {}
    gone: list[str] = []
    own = OWN if case.parameters.get("own") else {}

    def watched(graph_module: Any) -> Any:
        if given:
            return replace_relu(graph_module)
        _respelled(graph_module, case.parameters)
        _retargeted(graph_module, own)
        graph_module.recompile()
        given.update(graph_module.named_modules())
        result = replace_relu(graph_module)
        if isinstance(result, fx.GraphModule):
            # An encoded graph holds no functions of our own. The code stays as it is: whether it is new is asked later.
            _retargeted(result, {function: target for target, function in own.items()})
        there = dict(graph_module.named_modules(remove_duplicate=False))
        gone.extend(path for path in given if path not in there)
        return result

    evidence = rewrite_evidence(case, watched)
    evidence.values["gone"] = gone
    classes = {name: type(module).__name__ for name, module in given.items() if name}
    evidence.values["classes"] = [[name, kind, getattr(given[name], "inplace", None)] for name, kind in classes.items()]
    return evidence


def classes_of(case: Case) -> list[list[Any]]:
    """The case's modules: name, class, and whether each works in place."""
    modules = {name: module for name, module in build(case).named_modules() if name}
    return [[name, type(module).__name__, getattr(module, "inplace", None)] for name, module in modules.items()]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)
