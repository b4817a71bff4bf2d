"""The segments of a caching allocator, drawn from a snapshot in the form of `torch.cuda.memory_snapshot()`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fxopt_workbench.tables import format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATES = {
    "active_allocated": ("in use", "#9ecae1", ""),
    "active_pending_free": ("waiting for a stream", "#fdd0a2", "//"),
    "inactive": ("free", "#ffffff", ""),
}
"""For each state of a block its name in words, its colour, and its hatching."""

Snapshot = Sequence[dict[str, Any]]


def segment(kind: str, *blocks: tuple[str, int], stream: int = 0, address: int = 0) -> dict[str, Any]:
    """A segment for a drawing, in the form of a snapshot.

    Args:
        kind: `"small"` or `"large"`.
        blocks: of each its state, one of `STATES`, and its bytes.
        stream: whose it is.
        address: where it begins.

    Raises:
        ValueError: there is no such state.
    """
    described = []
    place = address
    for state, size in blocks:
        if state not in STATES:
            raise ValueError(f"a block is {', '.join(STATES)}, not {state!r}")
        asked = 0 if state == "inactive" else size
        described.append({"address": place, "size": size, "requested_size": asked, "state": state, "frames": []})
        place += size
    total = sum(size for _, size in blocks)
    return {"address": address, "total_size": total, "stream": stream, "segment_type": kind, "blocks": described}


def describe_segments(snapshot: Snapshot) -> str:
    """The text twin of the picture: a line for each segment, with its blocks in order."""
    lines = []
    for number, one in enumerate(snapshot):
        blocks = ", ".join(f"{format_bytes(block['size'])} {STATES[block['state']][0]}" for block in one["blocks"])
        size = format_bytes(one["total_size"])
        lines.append(f"segment {number}: {one['segment_type']}, stream {one['stream']}, {size}: {blocks}")
    return "\n".join(lines) or "no segments"


def draw_segments(snapshot: Snapshot, title: str) -> Figure:
    """One bar for each segment, all of the same length, cut into its blocks. `describe_segments` says the same."""
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    figure, axes = pyplot.subplots(figsize=(7.5, 0.9 + 0.5 * len(snapshot)), layout="constrained")
    for number, one in enumerate(snapshot):
        place = 0.0
        for block in one["blocks"]:
            share = block["size"] / one["total_size"]
            _, colour, hatch = STATES[block["state"]]
            axes.broken_barh([(place, share)], (number - 0.4, 0.8), facecolor=colour, hatch=hatch, edgecolor="#444444")
            if share > 0.08:
                label = format_bytes(block["size"])
                axes.annotate(label, (place + share / 2, number), ha="center", va="center", fontsize=8)
            place += share
    names = [f"{one['segment_type']}, {format_bytes(one['total_size'])}" for one in snapshot]
    axes.set(title=title, xlim=(0, 1), ylim=(len(snapshot) - 0.4, -0.6), xticks=[])
    axes.set_yticks(range(len(names)), names)
    patches = [Patch(facecolor=colour, hatch=hatch, edgecolor="#444444") for _, colour, hatch in STATES.values()]
    axes.legend(patches, [name for name, _, _ in STATES.values()], loc="upper left", bbox_to_anchor=(1, 1))
    pyplot.close(figure)
    return figure
