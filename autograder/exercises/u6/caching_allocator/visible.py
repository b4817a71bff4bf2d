"""The learner's side: traces of requests, the device that an allocator stands on, and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

KIB, MIB = 2**10, 2**20

FIRST_ADDRESS = 2**29
"""Where the device's memory begins. Each segment begins where the one before it ends, or ends where that begins."""

PLENTY = 2**36
"""Bytes of a device that never runs out in these traces."""

MOST_PARTS = 400
"""Segments of a snapshot, and blocks of a segment, that become evidence; right ones are far below."""

Step = list[Any]
"""`["malloc", name, bytes, stream]`, `["free", name]`, `["free", name, bytes behind its address]`, or
`["empty_cache"]`."""


class Device:
    """Memory as a device hands it out: slowly, and only in segments.

    Attributes:
        capacity: bytes that it has.
        falling: whether each segment lies below the one before it.
        taken: size of each segment that was not given back, by address.
        calls: all that it was asked, in order.
    """

    def __init__(self, capacity: int, *, falling: bool = False, first: int = FIRST_ADDRESS) -> None:
        self.capacity, self.falling = capacity, falling
        self.taken: dict[int, int] = {}
        self.calls: list[list[Any]] = []
        self._next = first

    def malloc(self, size: int) -> int:
        """A new segment.

        Raises:
            MemoryError: the device has less than that left.
        """
        self.calls.append(["malloc", _number(size)])
        left = self.capacity - sum(self.taken.values())
        if size > left:
            raise MemoryError(f"the device has {left:,} bytes left, not {size:,}")
        address = self._next - size if self.falling else self._next
        self._next = address if self.falling else address + size
        self.taken[address] = size
        return address

    def free(self, address: int) -> None:
        """Take a segment back.

        Raises:
            ValueError: no segment that is taken begins there.
        """
        self.calls.append(["free", _number(address)])
        if address not in self.taken:
            raise ValueError(f"no segment of the device begins at {address}")
        del self.taken[address]


def malloc(name: str, size: int, stream: int = 0) -> Step:
    """A step that asks for memory."""
    return ["malloc", name, size, stream]


def free(*names: str) -> list[Step]:
    """Steps that free what was asked for under these names."""
    return [["free", name] for name in names]


def trace(
    *steps: Step | list[Step], capacity: int = PLENTY, falling: bool = False, first: int = FIRST_ADDRESS
) -> dict[str, Any]:
    """The parameters of a case.

    Args:
        steps: steps, or lists of steps.
        capacity: bytes of the device.
        falling: whether its addresses fall.
        first: where its memory begins.
    """
    flat: list[Step] = []
    for one in steps:
        flat += [one] if isinstance(one[0], str) else one
    return {"capacity": capacity, "falling": falling, "first": first, "steps": flat}


def visible_cases() -> list[Case]:
    """Small and large requests, splitting and merging, streams, and a device that runs out."""
    return [
        Case("sizes", trace(malloc("a", 1), malloc("b", 513), malloc("c", MIB), malloc("d", 3 * MIB, 0))),
        Case(
            "splitting and merging",
            trace(
                [malloc(name, 300 * KIB) for name in "abcd"],
                free("b"),
                malloc("e", 100 * KIB),
                free("a", "c", "e"),
                malloc("f", 900 * KIB),
                free("d", "f"),
            ),
        ),
        Case(
            "best fit",
            trace(
                [malloc(name, size * MIB) for name, size in (("a", 14), ("b", 13), ("c", 17))],
                free("a", "b", "c"),
                malloc("d", 11 * MIB),
                malloc("e", 13 * MIB + 512 * KIB),
            ),
        ),
        Case("streams", trace(malloc("a", 5 * MIB, 1), free("a"), malloc("b", 5 * MIB, 2), malloc("c", 5 * MIB, 1))),
        Case(
            "out of memory",
            trace(
                malloc("a", 12 * MIB),
                malloc("b", 4 * MIB),
                free("a"),
                malloc("c", 14 * MIB),
                malloc("d", 30 * MIB),
                [["empty_cache"]],
                capacity=40 * MIB,
            ),
        ),
    ]


def probe(case: Case, allocator_class: Any) -> Evidence:
    """Play the trace, and look at the snapshot after every step."""
    with torch_calls() as called:
        runs = play(case.parameters, allocator_class)
    return Evidence({"runs": runs, "torch_calls": called[:3]})


def play(given: dict[str, Any], allocator_class: Any) -> list[dict[str, Any]]:
    """What comes of each step: the answer, what the device was asked for, and the snapshot.

    Args:
        given: a trace.
        allocator_class: makes an allocator from a device.
    """
    device = Device(given["capacity"], falling=given["falling"], first=given["first"])
    allocator = allocator_class(device)
    addresses: dict[str, Any] = {}
    runs = []
    for kind, *rest in given["steps"]:
        device.calls.clear()
        answer: Any = None
        try:
            if kind == "malloc":
                name, size, stream = rest
                addresses[name] = allocator.malloc(size, stream)
                answer = _number(addresses[name])
            elif kind == "free":
                if rest[0] in addresses:  # else it never got any
                    allocator.free(addresses[rest[0]] + sum(rest[1:]))
            else:
                allocator.empty_cache()
        except MemoryError:
            answer = "MemoryError"
        except ValueError:
            answer = "ValueError"
        asked = [one for one in device.calls if one[0] == "malloc"]
        returned = sorted((one for one in device.calls if one[0] == "free"), key=str)
        runs.append({"answer": answer, "device": asked + returned, "snapshot": _plain(allocator.snapshot())})
    return runs


def _number(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _plain(snapshot: Any) -> list[Any] | None:
    """Segments by address, each as a list; `None` for what is no snapshot."""
    try:
        segments = [
            [
                _number(one["address"]),
                _number(one["total_size"]),
                _number(one["stream"]),
                str(one["segment_type"])[:20],
                [[_number(block["size"]), str(block["state"])[:20]] for block in one["blocks"][:MOST_PARTS]],
            ]
            for one in snapshot[:MOST_PARTS]
        ]
    except (TypeError, KeyError, IndexError):
        return None
    return sorted(segments, key=lambda one: (one[0] is None, one[0] or 0))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The trace, and the last snapshot as strips of memory."""
    lines = [f"{case.name}: what your allocator did"]
    for (kind, *rest), run in zip(case.parameters["steps"], evidence.values["runs"], strict=True):
        what = (
            f"malloc {rest[0]}, {rest[1]:,} bytes on stream {rest[2]}"
            if kind == "malloc"
            else " ".join([kind, *map(str, rest)])
        )
        asked = "".join(f"; device: {call} {argument:,}" for call, argument in run["device"] if argument is not None)
        answer = "" if run["answer"] is None else f" → {run['answer']}"
        lines.append(f"  {what}{answer}{asked}")
    lines.append("At the end:")
    snapshot = evidence.values["runs"][-1]["snapshot"] if evidence.values["runs"] else []
    lines += [f"  {segment_in_words(one)}" for one in snapshot] if snapshot else ["  no segments"]
    return ["\n".join(lines)]


def segment_in_words(segment: list[Any]) -> str:
    """One segment of a snapshot, with its blocks."""
    address, size, stream, kind, blocks = segment
    parts = ", ".join(f"{bytes_:,} {state}" if bytes_ is not None else "?" for bytes_, state in blocks)
    return f"{address}: {kind}, stream {stream}, {'?' if size is None else f'{size:,}'} bytes: {parts}"
