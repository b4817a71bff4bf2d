"""The learner's side: models whose graphs are to be changed, the visible cases, the probe and the pictures."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, decode, encode


class TwoReaders(nn.Module):
    """The result is read twice, once by keyword."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape to the same."""
        y = torch.exp(x)
        return torch.sub(torch.add(x, other=y), y.cos())


class InLists(nn.Module):
    """Two calls, read in a list; and the output reads one of them directly."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, width) to (2 * batch, width) and (batch, width)."""
        first, second = torch.exp(x), torch.exp(x - 1)
        return torch.cat([first, second]), second


class Spelled(nn.Module):
    """What a call is named is not what it calls: `-x` is Python's operator, `x.neg()` a method."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Any shape to two of the same."""
        first = torch.neg(x)
        torch.neg(first)  # nobody reads it
        return first.neg() + (-x), torch.cos(first)


class Chain(nn.Module):
    """One call reads the other's result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape to the same."""
        return torch.exp(torch.sin(torch.exp(x)) * 2)


MODELS: dict[str, type[nn.Module]] = {
    "two readers": TwoReaders,
    "in lists": InLists,
    "chain": Chain,
    "spelled": Spelled,
}

FUNCTIONS: dict[str, Any] = {"sin": torch.sin, "exp": torch.exp, "tanh": torch.tanh, "neg": torch.neg, "abs": torch.abs}
FUNCTIONS |= {"cos": torch.cos, "operator.neg": operator.neg, "operator.mul": operator.mul, "add": torch.add}
"""What is looked for, and what is inserted."""


def visible_cases() -> list[Case]:
    """Each model, and one in which there is nothing to do."""
    names = [name for name in MODELS if name != "spelled"]
    cases = [Case(name, {"model": name, "target": "exp", "function": "tanh"}) for name in names]
    cases.append(Case("spelled in other ways", {"model": "spelled", "target": "neg", "function": "tanh"}))
    return [*cases, Case("nothing to do", {"model": "two readers", "target": "abs", "function": "neg"})]


def graph_of(case: Case) -> fx.GraphModule:
    """The graph of a case, as new."""
    if "graph" in case.parameters:
        return decode(EncodedGraph(case.parameters["graph"], case.tensors))
    return fx.symbolic_trace(MODELS[case.parameters["model"]]())


def probe(case: Case, insert_after: Any) -> Evidence:
    """Let the learner change the graph; the graph, and what the module really runs, travel."""
    given = case.parameters
    graph_module = graph_of(case)
    if given.get("old code"):
        # As after a change to the graph that nobody has written anew; each graph module has a class of its own.
        type(graph_module).forward = _hands_back
    result = insert_after(graph_module, FUNCTIONS[given["target"]], FUNCTIONS[given["function"]])
    if not isinstance(result, fx.GraphModule):
        return Evidence({"returned": type(result).__name__})
    evidence = Evidence({"returned": "GraphModule"})
    if any(node in node.all_input_nodes for node in result.graph.nodes):
        return Evidence({"returned": "loop"})
    try:
        result.graph.lint()
    except RuntimeError as error:
        return Evidence({"returned": "malformed", "text": str(error)[:300]})
    try:
        evidence.graphs["graph"] = encode(result)
    except GraphFormatError as error:
        return Evidence({"returned": "foreign", "text": str(error)[:300]})
    evidence.graphs["code"] = encode(_what_runs(result))
    if result is not graph_module:
        try:
            evidence.graphs |= {"given": encode(graph_module), "given code": encode(_what_runs(graph_module))}
        except Exception as error:  # what an answer has left of the module that it was given may fail in any way
            evidence.values["given fails"] = f"{type(error).__name__}: {error}"[:300]
    return evidence


def _hands_back(self: fx.GraphModule, x: torch.Tensor) -> torch.Tensor:
    return x


class _AsItRuns(fx.Tracer):
    """Records what the code of a module does; a graph that it calls is a module to it."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Every module is one."""
        return True


def _what_runs(result: fx.GraphModule) -> fx.GraphModule:
    return fx.GraphModule(result, _AsItRuns().trace(result))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    if "graph" not in evidence.graphs:
        return []
    from autograder.learner_side.exhibits import before_and_after

    before = graph_of(case)
    return list(before_and_after(case.name, before, decode(evidence.graphs["graph"])))
