"""The learner's side: transformers, blocks and what only looks like attention; the probe and what is shown."""

from __future__ import annotations

from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day4.blocks import block, build, transformer, written


def visible_cases() -> list[Case]:
    """Two real models, other forms of attention, and what is none, or has a step that is none."""
    return [
        transformer("BERT", "bert"),
        transformer("GPT-2", "gpt2", seed=1),
        block("three layers without mask and scale", layers=3, scale="", masked=False),
        block("a cast before the softmax, a cast and a dropout behind it", cast=True),
        block("one head: three dimensions, `bmm`", heads=False, scale="divided"),
        block("weights that are an output, too", shared="weights"),
        block("a gate: weights from a linear layer", mixes="gate"),
        block("weights that meet no values", mixes="unused"),
        block("ReLU in the place of the softmax, and classes at the end", mixes="classes"),
        block("a logarithm of the softmax", mixes="logarithm"),
        written(
            "scores that a tanh caps",  # as Gemma 2 writes them
            'return matmul(softmax(mul(unary("tanh", div(matmul(q, T(k)), 30.0)), 30.0), -1), v)',
        ),
    ]


def make_ahead() -> None:
    """Export the models of the visible cases once, before a learner's code runs: `build` then gives copies of them."""
    for case in visible_cases():
        build(case)


def probe(case: Case, find_attention: Any) -> Evidence:
    """Let the learner search; what travels: the nodes' names, whether they are the graph's, and the graph as text."""
    graph_module = build(case)
    graph = graph_module.graph
    found = find_attention(graph_module)
    rows = [_names(row) for row in found] if isinstance(found, (list, tuple)) else None
    nodes = [node for row in found for node in row] if rows and all(isinstance(row, list) for row in rows) else []
    own = all(node.graph is graph for node in nodes)
    return Evidence({"found": rows, "kind": type(found).__name__, "own": own, "after": str(graph)})


def _names(row: Any) -> list[str] | str:
    if isinstance(row, (list, tuple)) and len(row) == 3 and all(isinstance(node, fx.Node) for node in row):
        return [node.name for node in row]
    return f"a {type(row).__name__}"


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was found, by name."""
    rows = evidence.values["found"] or []
    lines = [f"{case.name}: you found {len(rows)} attention block{'s' * (len(rows) != 1)}"]
    lines += [f"  {' -> '.join(row) if isinstance(row, list) else row}" for row in rows]
    return ["\n".join(lines)]
