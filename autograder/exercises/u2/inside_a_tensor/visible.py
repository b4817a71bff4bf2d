"""The learner's side: short programs that make views and write through them, and what the built function reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, load_library, source_of

SCHEMA = "u2::inside(Tensor x) -> (int, int, int?)"

Program = list[str]
"""Lines of Python, of which those with `inside(…)` ask about a tensor."""

Found = TypeVar("Found")

PROGRAMS: dict[str, Program] = {
    "views": [
        "x = torch.zeros(6)",
        "inside(x)",
        "y = x[2:]",
        "inside(y)",
        "z = y[1:3]",
        "inside(z)",
        "inside(x)",
    ],
    "other steps": [
        "x = torch.zeros(3, 4, dtype=torch.float64)",
        "turned = x[1:].t()",
        "inside(turned)",
        "wide = x[:, 2:3].expand(3, 5)",
        "inside(wide)",
    ],
    "written": [
        "x = torch.zeros(4)",
        "y = x[1:]",
        "y.add_(1)",
        "x.mul_(2)",
        "inside(y)",
        "copy = x.clone()",
        "inside(copy)",
        "x.detach().zero_()",
        "inside(x)",
        "x.data.zero_()",
        "inside(x)",
    ],
    "who holds it": [
        "big = torch.zeros(1000)",
        "few = big[:10]",
        "del big",
        "inside(few)",
        "storage = few.untyped_storage()",
        "inside(few)",
        "leaf = torch.ones(3, requires_grad=True)",
        "power = leaf.exp()",
        "inside(power)",
    ],
    "nothing there": [
        "x = torch.zeros(6)",
        "none = x[3:3]",
        "inside(none)",
        "shapes = torch.empty(5, 4, device='meta')[2:]",
        "inside(shapes)",
    ],
    "inference": [
        "x = torch.zeros(2)",
        "with torch.inference_mode(): inside(x)",
        "with torch.inference_mode(): made = torch.ones(3)",
        "inside(made)",
        "inside(made[1:])",
    ],
    "no storage": ["x = torch.eye(3).to_sparse()", "inside(x)"],
}


def visible_cases() -> list[Case]:
    """Offsets, writes, holders, tensors without elements or memory or version, and one without a storage."""
    return [
        Case(name, {"number": number}, kept={"program": program})
        for number, (name, program) in enumerate(PROGRAMS.items())
    ]


def run(program: Program, inside: Callable[[torch.Tensor, dict[str, Any]], Found]) -> list[Found]:
    """Run a program; what `inside` says of each tensor that it is asked about, given the names there by then."""
    found: list[Found] = []
    names: dict[str, Any] = {"torch": torch}
    names["inside"] = lambda tensor: found.append(inside(tensor, names))
    for line in program:
        exec(line, names)
    return found


def probe(case: Case, inside_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(inside_source)


def fresh(case: Case) -> Evidence:
    """Run the program, in a process of its own."""
    return apart(answers, case)


def answers(case: Case) -> Evidence:
    """Load the library, and call its function where the program says so."""
    try:
        operators = load_library(case, "u2")
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    packet: Any = getattr(operators, "inside", None)
    schema = None if packet is None else ", ".join(str(getattr(packet, name)._schema) for name in packet.overloads())
    seen: list[dict[str, Any]] = []
    if schema == SCHEMA:
        for found, raised in run(case.parameters["program"], lambda tensor, _: attempt(packet, tensor)):
            seen.append({"raised": raised, "found": None if raised else list(found)})
    return Evidence({"schema": schema, "answers": seen})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The program, with what came back beside each call."""
    if not evidence.values.get("answers"):
        return []
    lines, seen = [f"{case.name}:"], iter(evidence.values["answers"])
    for line in case.kept["program"]:
        if "inside(" not in line:
            lines.append(f"  {line}")
            continue
        one = next(seen)
        lines.append(f"  {line:40} {first_line(one['raised']) if one['raised'] else tuple(one['found'])}")
    return ["\n".join(lines)]
