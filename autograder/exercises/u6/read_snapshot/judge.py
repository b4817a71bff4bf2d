"""Figures of a snapshot, counted anew; and whether a request would be served without the device, tried on the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u6.caching_allocator.judge import random_trace
from autograder.exercises.u6.caching_allocator.model import Model
from autograder.exercises.u6.caching_allocator.visible import PLENTY, Device
from autograder.exercises.u6.read_snapshot.visible import FIGURES, KIB, MIB, STATES, segment

MISCONCEPTIONS = {
    "asked PyTorch": "Your function asks PyTorch. A snapshot is a list of dictionaries: count.",
    "not figures": "`report` returns a dictionary with six whole numbers; `serves` returns `True` or `False`.",
    "reserved without free": "`reserved` is all that was got from the device: the sizes of all segments.",
    "waiting counted as allocated": (
        "A block whose state is `active_pending_free` was freed by the program. It waits for a stream, and is not "
        "`allocated` any more."
    ),
    "requested in place of allocated": (
        "`allocated` counts blocks with what rounding added. What was asked for stands in `requested_size`."
    ),
    "rounding of all blocks": (
        "`rounding` is what *allocated* blocks have beyond their `requested_size`. What is free, or waits, is none."
    ),
    "rounding to 512 only": (
        "A block may be larger than its request by more than rounding up to 512 bytes: a large one keeps a rest of up "
        "to 1 MiB. Take what the snapshot says, `size` less `requested_size`."
    ),
    "waiting is free": (
        "A block that waits for a stream is not free: its segment cannot be given back, and it serves nobody."
    ),
    "releasable in part": (
        "A segment goes back to the device as a whole. Free blocks beside one in use are `stuck`, not `releasable`."
    ),
    "stuck with all that is free": "`stuck` leaves out segments that are entirely free: those can be given back.",
    "free blocks added up": "A request needs *one* block that is large enough. Free blocks cannot be added up.",
    "pools not told apart": (
        "A request of up to 1 MiB looks in small segments only, a larger one in large segments only. A free block in "
        "the other pool does not help."
    ),
    "streams not told apart": "Only blocks of the request's own stream serve it.",
    "exact fit refused": "A block of exactly the right size serves a request, too.",
    "wrong figures": "Counted block by block, this snapshot has other figures.",
    "wrong answers": "Other requests than these would be served from the cache.",
}

Snapshot = list[dict[str, Any]]

HANDLE = 0x55D0_1A2B_3C40
"""A stream as CUDA names it: by the address of its handle."""


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then snapshots of allocators in use."""

    def kept_whole(state: str, size: int) -> tuple[str, int, int]:
        """A block that keeps what is left of it, since the rest is too small to be split off."""
        return state, size, size - random.randint(KIB, MIB)

    fixed = {
        "rounded": (
            [segment(2**29, ("used", 1024, 600), ("pending", 1024, 520), ("free", 1536), ("used", 2 * MIB - 3584))],
            [[0, 1536], [0, 1535], [0, 1537], [0, 1]],
        ),
        "kept whole": (
            [
                segment(2**29, kept_whole("used", 2 * MIB * random.randint(6, 20))),
                segment(2**30, kept_whole("used", 4 * MIB), kept_whole("pending", 3 * MIB), ("free", 13 * MIB)),
                segment(2**31, ("used", 1024, 600), ("free", 2 * MIB - 1024)),
            ],
            [[0, 13 * MIB], [0, 14 * MIB]],
        ),
        "waiting": (
            [
                segment(2**29, ("pending", 20 * MIB, 9 * MIB)),
                segment(2**30, ("free", 12 * MIB)),
                segment(2**31, ("pending", 700 * KIB), ("free", 2 * MIB - 700 * KIB)),
            ],
            [[0, 20 * MIB], [0, 12 * MIB], [0, 700 * KIB]],
        ),
        "crumbs": (
            [
                segment(
                    2**29,
                    ("free", 4 * MIB),
                    ("used", 4 * MIB, 4 * MIB - 7),
                    ("free", 4 * MIB),
                    ("used", 4 * MIB),
                    ("free", 4 * MIB),
                )
            ],
            [[0, 12 * MIB], [0, 8 * MIB], [0, 4 * MIB], [0, 4 * MIB + 1]],
        ),
        "pools": (
            [
                segment(2**29, ("used", 19 * MIB), ("free", MIB)),
                segment(2**30, ("used", MIB), ("free", MIB)),
                segment(2**31, ("free", 2 * MIB), stream=3),
            ],
            [[0, MIB], [0, MIB + 1], [3, 2 * MIB], [3, MIB + 1], [3, MIB], [3, 512], [0, 100]],
        ),
        "only a large pool": (
            [segment(2**29, ("used", 18 * MIB), ("free", 2 * MIB), stream=1)],
            [[1, 512], [1, 2 * MIB]],
        ),
        "streams": (
            [
                segment(2**29, ("free", 20 * MIB), stream=1),
                segment(2**30, ("used", 12 * MIB), ("free", 8 * MIB), stream=HANDLE),
            ],
            [[1, 20 * MIB], [HANDLE, 9 * MIB], [HANDLE, 8 * MIB], [0, 2 * MIB]],
        ),
        "nothing": ([], [[0, 512]]),
    }
    cases = [Case(name, {"snapshot": snapshot, "requests": asked}) for name, (snapshot, asked) in fixed.items()]
    return cases + [Case(f"random {number}", random_state(random)) for number in range(4)]


def random_state(random: Random) -> dict[str, Any]:
    """What an allocator holds after a random trace, with some blocks that wait, and requests near the free sizes."""
    allocator = Model(Device(PLENTY))
    addresses: dict[str, int] = {}
    asked: dict[int, int] = {}
    for kind, *rest in random_trace(random, steps=30)["steps"]:
        if kind == "malloc":
            addresses[rest[0]] = allocator.malloc(rest[1], rest[2])
            asked[addresses[rest[0]]] = rest[1]
        elif kind == "free":
            allocator.free(addresses[rest[0]])
    snapshot = allocator.snapshot()
    for one in snapshot:
        place = one["address"]
        for block in one["blocks"]:
            block |= {"address": place, "requested_size": 0}
            if block["state"] == STATES["used"]:
                block["requested_size"] = asked[place]
                if random.random() < 0.2:
                    block["state"] = STATES["pending"]
            place += block["size"]
    free = [
        (one["stream"], block["size"]) for one in snapshot for block in one["blocks"] if block["state"] == "inactive"
    ]
    requests = []
    for stream, size in random.sample(free, min(len(free), 8)):
        near = max(1, size + random.choice([0, 0, 1, -1, -300, 512]))
        requests.append([random.choice([stream, stream, 0]), near])
    return {"snapshot": snapshot, "requests": requests}


def report(snapshot: Snapshot, flaw: str = "") -> dict[str, int]:
    """The figures of a snapshot, with one flaw or none."""
    found = dict.fromkeys(FIGURES, 0)
    for one in snapshot:
        sizes = dict.fromkeys(STATES.values(), 0)
        for block in one["blocks"]:
            sizes[block["state"]] += block["size"]
            used = block["state"] == STATES["used"]
            if used or flaw == "rounding of all blocks":  # all that nobody asked for, or asks for any more
                beyond = block["size"] - block["requested_size"]
                found["rounding"] += beyond % 512 if flaw == "rounding to 512 only" else beyond
            if used and flaw == "requested in place of allocated":
                found["allocated"] += block["requested_size"] - block["size"]
        free = sizes[STATES["free"]] + (sizes[STATES["pending"]] if flaw == "waiting is free" else 0)
        found["reserved"] += one["total_size"] - (sizes[STATES["free"]] if flaw == "reserved without free" else 0)
        found["allocated"] += sizes[STATES["used"]]
        if flaw == "waiting counted as allocated":
            found["allocated"] += sizes[STATES["pending"]]
        found["waiting"] += sizes[STATES["pending"]]
        whole = free == one["total_size"]
        found["releasable"] += free if whole or flaw == "releasable in part" else 0
        found["stuck"] += free if not whole or flaw == "stuck with all that is free" else 0
    return found


FLAWED_REPORTS = (
    "reserved without free",
    "waiting counted as allocated",
    "requested in place of allocated",
    "rounding of all blocks",
    "rounding to 512 only",
    "waiting is free",
    "releasable in part",
    "stuck with all that is free",
)


def serves(snapshot: Snapshot, stream: int, size: int, flaw: str = "") -> bool:
    """Whether a free block serves a request, with one flaw or none."""
    kind = "small" if size <= MIB else "large"
    free = [
        block["size"]
        for one in snapshot
        for block in one["blocks"]
        if (block["state"] == STATES["free"] or (flaw == "waiting is free" and block["state"] == STATES["pending"]))
        and (one["stream"] == stream or flaw == "streams not told apart")
        and (one["segment_type"] == kind or flaw == "pools not told apart")
    ]
    if flaw == "free blocks added up":
        return sum(free) >= size
    return any(one > size or (one == size and flaw != "exact fit refused") for one in free)


FLAWED_SERVICE = (
    "streams not told apart",
    "pools not told apart",
    "exact fit refused",
    "waiting is free",
    "free blocks added up",
)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconceptions behind wrong figures, and behind wrong answers for requests."""
    snapshot, requests = case.parameters["snapshot"], case.parameters["requests"]
    figures, served = evidence.values["figures"], evidence.values["served"]
    said = False
    if figures is None or None in figures.values() or len(served) != len(requests) or None in served:
        yield "not figures", f"(found {figures} and {served})"
        return
    wanted = report(snapshot)
    if figures != wanted:
        said = True
        off = ", ".join(
            f"{name}: found {figures[name]:,}, wanted {wanted[name]:,}" for name in off_names(figures, wanted)
        )
        yield _named(lambda flaw: report(snapshot, flaw) == figures, FLAWED_REPORTS) or "wrong figures", f"({off})"
    right = [serves(snapshot, stream, size) for stream, size in requests]
    if served != right:
        said = True

        def answered(flaw: str) -> bool:
            return [serves(snapshot, stream, size, flaw) for stream, size in requests] == served

        place = next(number for number, one in enumerate(served) if one != right[number])
        stream, size = requests[place]
        told = f"({size:,} bytes on stream {stream}: found {served[place]}, wanted {right[place]})"
        yield _named(answered, FLAWED_SERVICE) or "wrong answers", told
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def off_names(figures: dict[str, int], wanted: dict[str, int]) -> list[str]:
    """Names of the figures that are other than wanted."""
    return [name for name in FIGURES if figures[name] != wanted[name]]


def _named(fits: Callable[[str], bool], flaws: tuple[str, ...]) -> str | None:
    return next((flaw for flaw in flaws if fits(flaw)), None)
