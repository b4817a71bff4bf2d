"""A trace as a picture and as text: who did what when, one line for each thread and each stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxopt_workbench.internals.timelines import ON_DEVICE, Event
from fxopt_workbench.tables import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "user_annotation": ("range", "#e8e8e8", ""),
    "cpu_op": ("operator", "#9ecae1", ""),
    "cuda_runtime": ("runtime call", "#fdd0a2", "//"),
    "kernel": ("kernel", "#74c476", ""),
    "gpu_memcpy": ("copy", "#bcbddc", "xx"),
    "gpu_memset": ("memset", "#bcbddc", ".."),
}
"""For each category that is drawn: what it's called, its colour, and its hatching, since colour alone is no sign."""

MOST_EVENTS = 600
"""Events of a picture; of more, those that last longest are drawn."""


def events_of(file: str | Path) -> list[Event]:
    """The complete events of a trace that `export_chrome_trace` wrote, times from 0.

    Raises:
        ValueError: the file is no trace, or has no events that a picture could show.
    """
    content = json.loads(Path(file).read_text())
    if not isinstance(content, dict) or "traceEvents" not in content:
        raise ValueError(f"{file} is no trace: it has no list of traceEvents; write one with export_chrome_trace")
    found = [one for one in content["traceEvents"] if one.get("ph") == "X" and one.get("cat") in LOOKS]
    if not found:
        raise ValueError(f"{file} has no events of {', '.join(LOOKS)}: run something while the profiler records")
    begin = min(one["ts"] for one in found)
    return sorted(({**one, "ts": one["ts"] - begin} for one in found), key=lambda one: (one["ts"], -one["dur"]))


def rows_of(events: Iterable[Event]) -> dict[str, list[Event]]:
    """The events of each thread and each stream, by a name for it. Threads of the host come first, numbered from 1."""
    shown = [one for one in events if one["cat"] in LOOKS]
    threads = list(dict.fromkeys(one["tid"] for one in shown if one["cat"] not in ON_DEVICE))
    streams = sorted({one["tid"] for one in shown if one["cat"] in ON_DEVICE})
    rows = {f"thread {number}": _of(shown, thread, False) for number, thread in enumerate(threads, 1)}
    return rows | {f"stream {stream}": _of(shown, stream, True) for stream in streams}


def _of(events: list[Event], tid: int, device: bool) -> list[Event]:
    return [one for one in events if one["tid"] == tid and (one["cat"] in ON_DEVICE) == device]


def depths(events: Sequence[Event]) -> list[int]:
    """How deep each event lies within others of its row; the events come by time, longer ones first."""
    ends: list[float] = []
    found = []
    for one in events:
        while ends and ends[-1] <= one["ts"]:
            ends.pop()
        found.append(len(ends))
        ends.append(one["ts"] + one["dur"])
    return found


def describe(events: Sequence[Event], most: int = 12) -> str:
    """The text twin: for each row what took longest, with how often it ran and how long in all.

    Args:
        events: of a trace.
        most: lines of each row.
    """
    parts = []
    for name, row in rows_of(events).items():
        totals: dict[str, tuple[int, float]] = {}
        for one in row:
            count, total = totals.get(one["name"], (0, 0.0))
            totals[one["name"]] = (count + 1, total + one["dur"])
        longest = sorted(totals.items(), key=lambda pair: -pair[1][1])
        lines = [[what, f"{count}", f"{total:,.0f}"] for what, (count, total) in longest[:most]]
        left = f"  … and {len(longest) - most} more names" if len(longest) > most else ""
        parts += [f"{name}:", *("  " + line for line in aligned(["what", "times", "µs in all"], lines)), left]
    return "\n".join(line for line in parts if line)


def draw_timeline(events: Sequence[Event], title: str) -> Figure:
    """The trace as bars over time, what lies within something else below it. `describe` says the same in words.

    Args:
        events: of a trace, as `events_of` gives them.
        title: what it shows.
    """
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    drawn = sorted(sorted(events, key=lambda one: -one["dur"])[:MOST_EVENTS], key=lambda one: (one["ts"], -one["dur"]))
    rows = {name: (row, depths(row)) for name, row in rows_of(drawn).items()}
    lanes = sum(max(found) + 2 for _, found in rows.values())
    figure, axes = pyplot.subplots(figsize=(9, 0.6 + 0.3 * lanes), layout="constrained")
    whole = max(one["ts"] + one["dur"] for one in drawn)
    top, ticks, seen = 0, [], set()
    for name, (row, found) in rows.items():
        ticks.append((top + max(found) / 2, name))
        for one, depth in zip(row, found, strict=True):
            _, colour, hatch = LOOKS[one["cat"]]
            seen.add(one["cat"])
            axes.broken_barh(
                [(one["ts"], one["dur"])],
                (top + depth - 0.42, 0.84),
                facecolor=colour,
                edgecolor="#444444",
                hatch=hatch,
                linewidth=0.5,
            )
            if one["dur"] > whole * 0.011 * len(one["name"]):
                middle = one["ts"] + one["dur"] / 2
                axes.annotate(one["name"], (middle, top + depth), ha="center", va="center", fontsize=7)
        top += max(found) + 2
    axes.set(title=title, xlabel="µs", xlim=(0, whole), ylim=(top - 1, -1))
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    patches = [Patch(facecolor=LOOKS[one][1], hatch=LOOKS[one][2], edgecolor="#444444") for one in LOOKS if one in seen]
    axes.legend(patches, [LOOKS[one][0] for one in LOOKS if one in seen], loc="upper left", bbox_to_anchor=(1, 1))
    pyplot.close(figure)
    return figure
