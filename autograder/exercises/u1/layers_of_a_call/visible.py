"""The learner's side: traces, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.traces import BACKWARD, trace

FACTS = ("operator", "python", "work", "own", "derivative of")
"""What is asked about each outermost operator."""

MOST_ROWS, MOST_WORK = 400, 100
"""Rows of an answer, and operators of a row, that become evidence; no right answer has more."""


def visible_cases() -> list[Case]:
    """One call, a composite one, a backward pass, and two threads."""
    return [
        Case("one call", {"events": trace([["add"]], 1)}),
        Case("composite", {"events": trace([["linear", "relu"]], 2)}),
        Case("backward", {"events": trace([["square", "relu", BACKWARD]], 3)}),
        Case("named ranges", {"events": trace([["softmax", "add", "relu"]], 4, ranges=True)}),
        Case("two threads", {"events": trace([["relu", "add"], ["layer_norm"]], 5)}),
    ]


def probe(case: Case, take_apart: Any) -> Evidence:
    """Hand over the events of a trace."""
    events = [dict(event) for event in case.parameters["events"]]
    found = take_apart(events)
    if not isinstance(found, (list, tuple)):
        return Evidence({"rows": None})
    return Evidence({"rows": [_row(one) for one in found[: MOST_ROWS + 1]]})


def _row(found: Any) -> dict[str, Any] | None:
    if not isinstance(found, dict) or any(name not in found for name in FACTS):
        return None
    row: dict[str, Any] = {name: _number(found[name]) for name in FACTS}
    work = found["work"]
    row["work"] = [_number(one) for one in work[:MOST_WORK]] if isinstance(work, (list, tuple)) else None
    return row


def _number(found: Any) -> int | None:
    return int(found) if isinstance(found, int) and not isinstance(found, bool) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The events of each thread in the order of time, and the rows with names."""
    events = sorted(case.parameters["events"], key=lambda one: (one["thread"], one["start"], -one["end"]))
    names = {one["id"]: one["name"] for one in events}
    lines = [f"{case.name}: the events"]
    for one in events:
        told = "" if one["sequence"] is None else f", sequence {one['sequence']}"
        told += "" if one["forward thread"] is None else f" of thread {one['forward thread']}"
        lines.append(f"  {one['thread']:3} {one['start']:5} to {one['end']:5}  {one['id']:4} {one['name'][:60]}{told}")
    lines.append("what you made of them")
    for row in evidence.values["rows"] or []:
        if row is None:
            lines.append("  no dictionary with all keys")
            continue
        work = ", ".join(f"{names.get(one, one)}" for one in row["work"] or [])
        lines.append(
            f"  {names.get(row['operator'], row['operator'])} (own {row['own']}), from {names.get(row['python'])}, "
            f"derivative of {names.get(row['derivative of'])}: {work}"
        )
    return ["\n".join(lines)]
