"""The learner's side: models whose graphs are to be changed, the visible cases, the probe and the pictures."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode


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


class Chain(nn.Module):
    """One call reads the other's result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape to the same."""
        return torch.exp(torch.sin(torch.exp(x)) * 2)


MODELS: dict[str, type[nn.Module]] = {"two readers": TwoReaders, "in lists": InLists, "chain": Chain}

FUNCTIONS = {"sin": torch.sin, "exp": torch.exp, "tanh": torch.tanh, "neg": torch.neg, "abs": torch.abs}


def visible_cases() -> list[Case]:
    """Each model, and one in which there is nothing to do."""
    cases = [Case(name, {"model": name, "target": "exp", "function": "tanh"}) for name in MODELS]
    return [*cases, Case("nothing to do", {"model": "two readers", "target": "abs", "function": "neg"})]


def probe(case: Case, insert_after: Any) -> Evidence:
    """Let the learner change the graph; the graph, and what the module really runs, travel."""
    given = case.parameters
    graph_module = fx.symbolic_trace(MODELS[given["model"]]())
    result = insert_after(graph_module, FUNCTIONS[given["target"]], FUNCTIONS[given["function"]])
    if not isinstance(result, fx.GraphModule):
        return Evidence({"returned": type(result).__name__})
    evidence = Evidence({"returned": "GraphModule"})
    if any(node in node.all_input_nodes for node in result.graph.nodes):
        return Evidence({"returned": "loop"})
    try:
        result.graph.lint()
        evidence.graphs["graph"] = encode(result)
    except (RuntimeError, GraphFormatError) as error:
        return Evidence({"returned": "malformed", "text": str(error)[:300]})
    evidence.graphs["code"] = encode(fx.symbolic_trace(result))
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    if "graph" not in evidence.graphs:
        return []
    from autograder.learner_side.exhibits import before_and_after

    before = fx.symbolic_trace(MODELS[case.parameters["model"]]())
    return list(before_and_after(case.name, before, decode(evidence.graphs["graph"])))
