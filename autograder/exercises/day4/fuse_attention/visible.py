"""The learner's side: attention in many forms, some of which the fused operator cannot replace; probe and display."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.day4.blocks import block, build, transformer

SHOWN_NODES = 60
"""Most nodes of a graph of which the check still draws a picture."""


def visible_cases() -> list[Case]:
    """Attention with its scale and mask, real models, and places that must be left alone."""
    return [
        block("scaled and masked"),
        block("a scale of its own", number=0.9, seed=1),
        block("a scale that divides", scale="divided", number=0.7, masked=False, seed=2),
        block("without a scale", scale="", seed=3),
        block("queries that are scaled beforehand", scale="query", number=0.6, seed=4),
        block("three layers", layers=3, seed=5),
        block("weights that are an output, too", shared="weights", seed=6),
        block("a softmax over the queries", dimension=-2, masked=False, seed=7),
        block("a gate", mixes="gate", seed=8),
        transformer("BERT", "bert", layers=1),
        transformer("GPT-2", "gpt2", layers=1, seed=1),
    ]


def make_ahead() -> None:
    """Export the models of the visible cases once, before a learner's code runs: `build` then gives copies of them."""
    for case in visible_cases():
        build(case)


def probe(case: Case, fuse_attention: Any) -> Evidence:
    """The learner's rewrite of the case's graph, and a second one of its result."""
    result = fuse_attention(build(case))
    if not isinstance(result, fx.GraphModule):
        return Evidence({"returned": type(result).__name__})
    evidence = Evidence({"returned": "GraphModule"})
    try:
        result.graph.lint()
        evidence.values["fresh"] = result.code == result.graph.python_code("self").src
        evidence.graphs["graph"] = encode(result)
        again = fuse_attention(result)
        if isinstance(again, fx.GraphModule):
            evidence.graphs["again"] = encode(again)
    except (RuntimeError, GraphFormatError, AttributeError, TypeError) as error:
        evidence.values["malformed"] = str(error)[:300]
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after."""
    from autograder.learner_side.exhibits import before_and_after, table_of_change

    if "graph" not in evidence.graphs:
        return [f"{case.name}: nothing to show ({evidence.values})"]
    before, after = build(case), decode(evidence.graphs["graph"])
    if len(before.graph.nodes) > SHOWN_NODES:
        return [table_of_change(case.name, before, after)]
    return list(before_and_after(case.name, before, after))


FUSED = (torch.ops.aten.scaled_dot_product_attention.default, torch.nn.functional.scaled_dot_product_attention)
"""The fused operator, by both of its names."""


def fused_calls(graph_module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that call the fused operator, in the graph and in those within it."""
    return [node for node in all_nodes(graph_module) if node.op == "call_function" and node.target in FUSED]
