"""The learner's side: programs that describe graphs, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

import numpy

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

MOST_NODES, MOST_INSTRUCTIONS = 3000, 3000
"""Nodes of a graph, and instructions of a program, that become evidence; no right one has more."""

LONGEST = 200
"""Characters of an error's message that become evidence."""

Step = list[Any]
"""What is asked of a graph. References count what earlier steps brought, from 0, refused or not:

- `["call", operator, references, shape]`, where a shape may be `None`: brings one;
- `["gradients", reference, references]`: brings one for each of the last;
- `["program", references]`: asks for a program that computes these.
"""


def call(operator: str, *references: int, shape: list[int] | None = None) -> Step:
    """A step that adds an operation."""
    return ["call", operator, list(references), shape]


def placeholder(*shape: int) -> Step:
    """A step that adds an input."""
    return call("input", shape=list(shape))


def visible_cases() -> list[Case]:
    """Shapes and refusals, a network with its gradients, a second derivative, and a program without dead code."""
    return [
        Case(
            "shapes",
            {
                "steps": [
                    placeholder(2, 3),
                    placeholder(3),
                    call("add", 0, 1),
                    call("matmul", 0, 0),
                    call("transpose", 0),
                    call("matmul", 0, 4),
                    call("tanh", 5),
                    call("sum_to", 0, shape=[2, 1]),
                    call("sum_to", 0, shape=[3, 1]),
                    call("expand", 1, shape=[5, 3]),
                    call("expand", 1, shape=[3, 5]),
                    call("cosine", 1),
                    call("ones", shape=[4]),
                ]
            },
        ),
        Case(
            "a network",
            {
                "steps": [
                    placeholder(4, 3),
                    placeholder(3, 2),
                    placeholder(2),
                    call("matmul", 0, 1),
                    call("add", 3, 2),
                    call("tanh", 4),
                    call("mul", 5, 5),
                    call("sum_to", 6, shape=[]),
                    ["gradients", 7, [1, 2]],
                    ["program", [7, 8, 9]],
                ]
            },
        ),
        Case(
            "one operator each",
            {"steps": [step for number in range(6) for step in _alone(number)]},
        ),
        Case(
            "gradients of gradients",
            {
                "steps": [
                    placeholder(3),
                    call("mul", 0, 0),
                    call("mul", 1, 0),
                    call("sum_to", 2, shape=[]),
                    ["gradients", 3, [0]],
                    call("sum_to", 4, shape=[]),
                    ["gradients", 5, [0]],
                    ["program", [6]],
                ]
            },
        ),
        Case(
            "dead code",
            {
                "steps": [
                    placeholder(2),
                    call("neg", 0),
                    call("tanh", 0),
                    call("mul", 2, 0),
                    call("relu", 1),
                    call("add", 3, 3),
                    ["program", [5]],
                    ["program", [0, 2]],
                ]
            },
        ),
    ]


def _alone(number: int) -> list[Step]:
    """An input, one operator on it, its sum and the gradient: five nodes each."""
    first = 5 * number
    operator = ("neg", "relu", "transpose", "sum_to", "expand", "tanh")[number]
    shape = {"sum_to": [1, 3], "expand": [2, 2, 3]}.get(operator)
    return [
        placeholder(2, 3),
        call(operator, first, shape=shape),
        call("add", first + 1, first + 1),
        call("sum_to", first + 2, shape=[]),
        ["gradients", first + 3, [first]],
        ["program", [first + 4]],
    ]


def probe(case: Case, graph_class: Any, gradients: Any, program: Any) -> Evidence:
    """Describe the graph step by step, and hand over what became of it."""
    with torch_calls() as called:
        graph = graph_class()
        references: list[Any] = []
        answers = [_answer(step, graph, references, gradients, program) for step in case.parameters["steps"]]
        nodes = [_node(one) for one in list(graph.nodes)[: MOST_NODES + 1]]
    return Evidence({"answers": answers, "nodes": nodes, "references": references, "torch_calls": called[:3]})


def _answer(step: Step, graph: Any, references: list[Any], gradients: Any, program: Any) -> dict[str, Any]:
    """What a step came to; what is refused, or asks about what was refused, brings `None`."""
    kind, *rest = step
    before = len(graph.nodes)
    wanted = rest[1] if kind != "program" else rest[0]
    asked = [references[one] for one in ([rest[0], *wanted] if kind == "gradients" else wanted)]
    brings = {"call": 1, "gradients": len(wanted), "program": 0}[kind]
    numbers: list[int | None] | None = None
    found: dict[str, Any] = {}
    try:
        if None in asked:
            found = {"skipped": True}
        elif kind == "call":
            operator, _, shape = rest
            given = {} if shape is None else {"shape": tuple(shape)}
            numbers = [_whole(graph.call(operator, *asked, **given))]
        elif kind == "gradients":
            numbers = _wholes(gradients(graph, asked[0], asked[1:]))
        else:
            found = {"program": _program(program(graph, asked))}
    except ValueError as error:
        found = {"refused": str(error)[:LONGEST]}
    right = numbers is not None and len(numbers) == brings
    references += numbers if numbers is not None and right else [None] * brings
    return {"numbers": numbers if right else None, "before": before, "after": len(graph.nodes), **found}


def _whole(found: Any) -> int | None:
    whole = isinstance(found, (int, numpy.integer)) and not isinstance(found, bool)
    return int(found) if whole else None


def _wholes(found: Any) -> list[int | None] | None:
    return [_whole(one) for one in found] if isinstance(found, (list, tuple)) else None


def _node(found: Any) -> list[Any] | None:
    match found:
        case (str(operator), [*inputs], [*shape]):
            numbers, sizes = _wholes(inputs), _wholes(shape)
            if numbers is not None and sizes is not None and None not in (*numbers, *sizes):
                return [operator[:40], numbers[:10], sizes[:10]]
    return None


def _program(found: Any) -> list[list[Any]] | None:
    if not isinstance(found, (list, tuple)):
        return None
    instructions = []
    for one in found[: MOST_INSTRUCTIONS + 1]:
        match one:
            case (("run" | "free") as what, int(number)) if not isinstance(number, bool):
                instructions.append([what, int(number)])
            case _:
                return None
    return instructions


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph and the programs."""
    lines = [f"{case.name}: the graph that you built"]
    for number, one in enumerate(evidence.values["nodes"][:40]):
        lines.append(
            f"  {number}: {one[0]}({', '.join(map(str, one[1]))}) {tuple(one[2])}" if one else f"  {number}: ?"
        )
    for step, found in zip(case.parameters["steps"], evidence.values["answers"], strict=True):
        if "refused" in found:
            lines.append(f"  refused: {step[1]} of {step[2]}: {found['refused']}")
        if found.get("program"):
            told = " ".join(f"{what} {number};" for what, number in found["program"])
            lines.append(f"  program for {', '.join(str(one) for one in step[1])}: {told}")
    return ["\n".join(lines)]
