"""The learner's side: traces in virtual time, the probe, and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls
from fxopt_workbench.internals.timelines import COPIES, ON_DEVICE, Timeline, training_loop

FIGURES = ("device", "data", "synchronisation", "launches", "between", "hidden")

LONGEST = 40
"""Characters of a bottleneck's name that become evidence."""


def visible_cases() -> list[Case]:
    """A loop whose device is busy, one that waits for data, one that reads its loss, and one of tiny kernels."""
    loops = {
        "large kernels": training_loop(kernels=(200, 300, 200)),
        "slow loading": training_loop(load=900),
        "the loss is read": training_loop(load=1, bookkeeping=400, reads_loss=True),
        "tiny kernels": training_loop(kernels=(3,) * 12, prepare=6),
        "copies on a stream of their own": overlapping(),
        "nothing on the device": nothing(),
    }
    return [Case(name, {"events": events}) for name, events in loops.items()]


def nothing() -> list[dict[str, Any]]:
    """A host that only loads."""
    line = Timeline()
    with line.range("data"):
        line.host("load batch", 30)
    return line.trace()


def overlapping() -> list[dict[str, Any]]:
    """Copies that run beside kernels."""
    line = Timeline()
    for number in range(3):
        line.copy(f"Memcpy {number}", 60, COPIES)
        line.launch(f"kernel {number}", 40)
    return line.trace()


def probe(case: Case, diagnose: Any) -> Evidence:
    """Ask for the figures and the bottleneck."""
    with torch_calls() as called:
        found = diagnose(case.parameters["events"])
    known = found if isinstance(found, dict) else {}
    name = known.get("bottleneck")
    return Evidence(
        {
            "figures": {figure: _number(known.get(figure)) for figure in FIGURES},
            "bottleneck": name[:LONGEST] if isinstance(name, str) else None,
            "torch_calls": called[:3],
        }
    )


def _number(found: Any) -> int | None:
    return (
        int(found) if isinstance(found, int | float) and not isinstance(found, bool) and found == int(found) else None
    )


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The device's activities beside what was found."""
    events = [one for one in case.parameters["events"] if one["cat"] in ON_DEVICE]
    lines = [f"{case.name}: {len(events)} activities on the device"]
    lines += [
        f"  {one['ts']:6} to {one['ts'] + one['dur']:6} µs  stream {one['tid']:2}  {one['name']}" for one in events[:12]
    ]
    lines += ["  …"] if len(events) > 12 else []
    told = ", ".join(f"{name} {value}" for name, value in evidence.values["figures"].items())
    return ["\n".join([*lines, f"You found, in µs: {told}", f"Bottleneck: {evidence.values['bottleneck']}"])]
