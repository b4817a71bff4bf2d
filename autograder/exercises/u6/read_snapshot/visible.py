"""The learner's side: snapshots in the form of `torch.cuda.memory_snapshot()`, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

KIB, MIB = 2**10, 2**20

FIGURES = ("reserved", "allocated", "rounding", "waiting", "releasable", "stuck")

STATES = {"used": "active_allocated", "pending": "active_pending_free", "free": "inactive"}


def segment(address: int, *blocks: tuple[str, int] | tuple[str, int, int], stream: int = 0) -> dict[str, Any]:
    """A segment from its blocks.

    Args:
        address: where it begins.
        blocks: of each its state (a key of `STATES`), its size, and what was requested (the same, if left out).
        stream: whose it is.
    """
    described = []
    place = address
    for state, size, *requested in blocks:
        asked = 0 if state == "free" else requested[0] if requested else size
        described.append({"address": place, "size": size, "requested_size": asked, "state": STATES[state]})
        place += size
    total = place - address
    kind = "small" if total == 2 * MIB else "large"
    return {"address": address, "total_size": total, "stream": stream, "segment_type": kind, "blocks": described}


def visible_cases() -> list[Case]:
    """A segment of each pool, one that is entirely free, and one whose block waits for a stream."""
    mixed = [
        segment(2**29, ("used", 512, 100), ("free", 2 * MIB - 512)),
        segment(2**30, ("used", 8 * MIB), ("free", 12 * MIB)),
        segment(2**31, ("free", 14 * MIB), stream=7),
    ]
    waiting = [segment(2**29, ("used", 6 * MIB, 6 * MIB - 200), ("pending", 4 * MIB), ("free", 10 * MIB))]
    asked = [[0, 12 * MIB], [0, 13 * MIB], [7, 13 * MIB], [0, MIB]]
    return [
        Case("three segments", {"snapshot": mixed, "requests": asked}),
        Case("one that waits", {"snapshot": waiting, "requests": [[0, 4 * MIB], [0, 11 * MIB]]}),
    ]


def probe(case: Case, report: Any, serves: Any) -> Evidence:
    """Ask for the figures, and for each of the requests."""
    given = case.parameters
    with torch_calls() as called:
        figures = report(given["snapshot"])
        served = [serves(given["snapshot"], stream, size) for stream, size in given["requests"]]
    known = isinstance(figures, dict)
    return Evidence(
        {
            "figures": {name: _number(figures.get(name)) for name in FIGURES} if known else None,
            "served": [one if isinstance(one, bool) else None for one in served],
            "torch_calls": called[:3],
        }
    )


def _number(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Figures in MiB, and the answer for each request."""
    lines = [f"{case.name}: what your functions say"]
    for name, value in (evidence.values["figures"] or {}).items():
        lines.append(f"  {name:10} {'no number' if value is None else f'{value:,} bytes'}")
    for (stream, size), found in zip(case.parameters["requests"], evidence.values["served"], strict=True):
        lines.append(f"  {size:,} bytes on stream {stream}: {'served from the cache' if found else 'not served'}")
    return ["\n".join(lines)]
