"""What an allocator did with each request, compared with the published rules of PyTorch's caching allocator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u6.caching_allocator.model import Model
from autograder.exercises.u6.caching_allocator.visible import (
    KIB,
    MIB,
    Step,
    free,
    malloc,
    play,
    segment_in_words,
    trace,
)

MISCONCEPTIONS = {
    "asked PyTorch": "Your allocator asks PyTorch. Write down its rules: that is the whole task.",
    "not an address": "`malloc` returns the address of the block: a whole number.",
    "not a snapshot": (
        "`snapshot` returns a list of dictionaries with `address`, `total_size`, `stream`, `segment_type` and "
        "`blocks`; each block is a dictionary with `size` and `state`."
    ),
    "not rounded": "Round every request up to a multiple of 512 bytes before you look for a block.",
    "one pool": (
        "Small requests and large ones have pools of their own: one of up to 1 MiB never gets a block of a large "
        "segment, nor the other way round."
    ),
    "limit of the small pool": "A request of exactly 1 MiB is still a small one.",
    "first fit": "Take the *smallest* free block that is large enough, wherever it lies.",
    "tie broken otherwise": "Of several free blocks of the same size take the one with the lowest address.",
    "streams share": (
        "A block that was freed on one stream may still be in use there, by kernels that are queued. It may be handed "
        "out again on the same stream only."
    ),
    "never split": "Split a block that is much larger than the request: the rest stays free for others.",
    "split too much": (
        "In the large pool a rest of 1 MiB or less is not split off: no large request could ever use it."
    ),
    "split at the limit": "In the large pool the rest must be *more* than 1 MiB; exactly 1 MiB stays with the block.",
    "rest of the request": (
        "The request is rounded up first, and what it is rounded up by belongs to its block. The rest is what lies "
        "behind that: work it out from the rounded size, not from the bytes that were asked for."
    ),
    "small rest kept": "In the small pool every rest is split off, if it is as small as 512 bytes.",
    "segments of any size": (
        "Do not ask the device for what was requested, but for a segment: 2 MiB for small requests, 20 MiB for those "
        "below 10 MiB, and a multiple of 2 MiB for larger ones."
    ),
    "always 20 MiB": "A request of 10 MiB or more gets a segment of its own size, rounded up to a multiple of 2 MiB.",
    "10 MiB packed": (
        "A request that is exactly 10 MiB once it's rounded up gets a segment of 10 MiB. Only smaller ones are packed "
        "into 20 MiB."
    ),
    "not rounded to 2 MiB": "The segment for a request of 10 MiB or more is a multiple of 2 MiB.",
    "never merged": "A block that becomes free unites with free neighbours in its segment: else memory crumbles.",
    "merged with the next only": "Look at the block *before* the one that is freed, too: if free, they unite.",
    "merged with the previous only": "Look at the block *behind* the one that is freed, too: if free, they unite.",
    "merged across segments": (
        "Blocks of two segments never unite, even if one begins where the other ends: the device takes each segment "
        "back by itself."
    ),
    "given back at once": (
        "`free` gives nothing back to the device: that would be slow and would wait for it. Keep the block for the "
        "next request."
    ),
    "no second try": (
        "When the device has no more memory, give back every segment that is entirely free, and ask once more."
    ),
    "lost after the second try": (
        "After the second try the new segment is missing from the snapshot. In `self.segments.append(…)` Python looks "
        "up the list first, and only then asks for the segment; if `empty_cache` makes a new list meanwhile, the "
        "segment goes into the old one. Get the segment first, and append it on the next line."
    ),
    "only one pool flushed": (
        "When the device has no more memory, give back what is entirely free in *all* pools, of all streams: it "
        "doesn't mind whose it was."
    ),
    "one segment flushed": "When the device has no more memory, give back *all* segments that are entirely free.",
    "cache kept": "`empty_cache` gives every segment back to the device that is entirely free.",
    "small segments kept": "`empty_cache` gives back segments of the small pool, too.",
    "freed twice": "Freeing an address that is not in use must be refused with a `ValueError`.",
    "freed from within": "No block begins at this address: it lies within one. Refuse it with a `ValueError`.",
    "0 is no address": (
        "Addresses are whole numbers, and 0 is one. It is false, too: ask `is None`, or whether it is `in` your "
        "dictionary."
    ),
    "bytes lost": "The blocks of a segment add up to its `total_size`: what isn't handed out is a free block.",
    "wrong state": "A block that somebody has is `active_allocated`; every other is `inactive`.",
    "wrong allocation": "The allocator did something else than PyTorch's would do.",
}

STREAMS = (0, 1, 2)


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random traces."""
    large = [malloc(name, size * MIB) for name, size in (("a", 12), ("b", 16), ("c", 12))]
    fixed = {
        "limits": trace(
            malloc("a", MIB),
            malloc("b", MIB - 100),
            malloc("c", MIB + 1),
            malloc("d", 10 * MIB),
            malloc("e", 10 * MIB - 512),
            malloc("f", 10 * MIB - 511),
            malloc("g", 12 * MIB + 1),
            malloc("h", 512),
        ),
        # It is the rounded size that is packed, or not.
        "rounded up to 10 MiB": trace(malloc("a", 10 * MIB - 511), malloc("b", 10 * MIB)),
        "large rests": trace(
            large,
            free("a", "b", "c"),
            malloc("d", 11 * MIB),
            malloc("e", 11 * MIB - 512),
            malloc("f", 15 * MIB - 512),
            free("d", "e", "f"),
        ),
        # The rest begins behind the rounded request: each of these two leaves 1 MiB and not a byte more.
        "rests of odd requests": trace(
            malloc("a", 12 * MIB),
            free("a"),
            malloc("b", 11 * MIB),
            free("b"),
            malloc("c", 11 * MIB - random.randint(1, 511)),
            malloc("d", 15 * MIB - random.randint(1, 511)),
        ),
        "small rests": trace(malloc("a", MIB), malloc("b", MIB - 512), malloc("c", 512), malloc("d", 1), free("b")),
        "pools apart": trace(
            malloc("a", 3 * MIB),
            malloc("b", 100 * KIB),
            free("b"),
            malloc("c", 200),
            free("a"),
            malloc("d", MIB),
            malloc("e", MIB),
            malloc("f", 2 * MIB),
            malloc("g", 2 * MIB - 512),
        ),
        "ties": trace(large, free("c", "a"), malloc("d", 12 * MIB), malloc("e", 12 * MIB)),
        # The segment that came last is not always the highest one.
        "ties, the last one lowest": trace(large, free("c", "a"), malloc("d", 12 * MIB), falling=True),
        "ties in one segment": trace(
            [malloc(name, 300 * KIB) for name in "abcdef"],
            free("b", "d"),
            malloc("g", 300 * KIB),
            malloc("h", 300 * KIB),
        ),
        "united with the next one first": trace(
            [malloc(name, 4 * MIB) for name in "abcde"],
            free("c", "b", "d"),
            malloc("f", 12 * MIB),
            free("a", "f", "e"),
        ),
        # What was free of the same pool goes back to the device, to make room.
        "room in its own pool": trace(malloc("a", 12 * MIB), free("a"), malloc("b", 14 * MIB), capacity=20 * MIB),
        "an exact fit at 0": trace(malloc("a", 10 * MIB), free("a"), malloc("b", 10 * MIB), first=0),
        "neighbours": trace(
            [malloc(name, 4 * MIB) for name in "abcde"],
            free("b", "d", "c"),
            malloc("f", 12 * MIB - 512),
            free("a", "f", "e"),
            malloc("g", 20 * MIB),
            malloc("h", 19 * MIB),
        ),
        "segments side by side": trace(
            malloc("a", 10 * MIB),
            malloc("b", 10 * MIB),
            free("a", "b"),
            malloc("c", 18 * MIB),
            malloc("d", MIB),
            malloc("e", MIB),
            malloc("f", MIB),
            free("d", "e", "f"),
            [["empty_cache"]],
        ),
        "streams": trace(
            malloc("a", 700 * KIB, 1),
            malloc("b", 700 * KIB, 2),
            malloc("c", 700 * KIB, 1),
            free("b"),
            malloc("d", 700 * KIB, 1),
            malloc("e", 700 * KIB, 0),
            free("a", "c", "d"),
            malloc("f", 700 * KIB, 2),
        ),
        "the device runs out": trace(
            malloc("a", 12 * MIB, 1),
            malloc("b", 300 * KIB, 2),
            malloc("c", 11 * MIB, 2),
            free("a", "b", "c"),
            malloc("d", 2 * MIB),
            malloc("e", 18 * MIB),
            malloc("f", 16 * MIB, 1),
            malloc("g", 2 * MIB, 0),
            malloc("h", 40 * MIB),
            free("e"),
            malloc("i", 10 * MIB, 2),
            capacity=39 * MIB,
        ),
        "given back": trace(
            malloc("a", 200, 1),
            malloc("b", 5 * MIB, 1),
            malloc("c", 5 * MIB, 1),
            malloc("d", 12 * MIB, 2),
            free("a", "b", "d"),
            [["empty_cache"]],
            free("c"),
            malloc("e", 5 * MIB, 1),
            free("e"),
            [["empty_cache"]],
            malloc("f", 200, 1),
        ),
        "memory that begins at 0": trace(
            [malloc(name, 300 * KIB) for name in "ab"],
            free("a", "b"),
            malloc("c", MIB),
            free("c"),
            [["empty_cache"]],
            first=0,
        ),
        "freed twice": trace(
            malloc("a", 300),
            malloc("b", 300),
            [["free", "a", 256], ["free", "b", 512], ["free", "b", 2 * MIB]],
            free("a", "a"),
            malloc("c", 700),
            free("b", "c", "c"),
            [["empty_cache"]],
            free("b"),
        ),
    }
    cases = [Case(name, given) for name, given in fixed.items()]
    return cases + [Case(f"random {number}", random_trace(random)) for number in range(4)]


def random_trace(random: Random, steps: int = 36) -> dict[str, Any]:
    """Requests of all sizes on three streams, and frees in any order."""
    found: list[Step] = []
    living: list[str] = []
    for number in range(steps):
        if living and random.random() < 0.45:
            found += free(living.pop(random.randrange(len(living))))
        elif random.random() < 0.05:
            found.append(["empty_cache"])
        else:
            least, most = random.choice(
                [(1, 4 * KIB), (4 * KIB, MIB), (MIB, 10 * MIB), (MIB, 10 * MIB), (10 * MIB, 30 * MIB)]
            )
            name = f"t{number}"
            found.append(malloc(name, random.randint(least, most), random.choice(STREAMS)))
            living.append(name)
    return trace(found)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first step that went otherwise."""
    wanted = play(case.parameters, Model)
    found = evidence.values["runs"]
    for number, (step, right, run) in enumerate(zip(case.parameters["steps"], wanted, found, strict=True)):
        if right == run:
            continue
        yield (
            _named(case.parameters, found, number, right),
            f"(step {number + 1}, {_in_words(step)}: {_difference(right, run)})",
        )
        return
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _named(given: dict[str, Any], found: list[dict[str, Any]], number: int, right: dict[str, Any]) -> str:
    """The mistake that leads to the same up to the first wrong step, and with luck beyond it.

    Args:
        given: a trace.
        found: what came of each step.
        number: of the first wrong step.
        right: what should have come of it.
    """
    run = found[number]
    if given["steps"][number][0] == "malloc" and run["answer"] is None:
        return "not an address"
    if run["snapshot"] is None:
        return "not a snapshot"
    if _lost(right, run):
        return "lost after the second try"
    for address, total, _, _, blocks in run["snapshot"]:
        size = sum(size or 0 for size, _ in blocks)
        if total is not None and address is not None and size != total:
            return "merged across segments" if size > total else "bytes lost"
    fits = []
    for order, flaw in enumerate(Model.FLAWS):
        agreeing = [one == other for one, other in zip(play(given, partial(Model, flaw=flaw)), found, strict=True)]
        if all(agreeing[: number + 1]):
            fits.append((sum(agreeing), -order, flaw))
    if fits:
        return max(fits)[2]
    states = {state for segment in run["snapshot"] for _, state in segment[4]}
    return "wrong allocation" if states <= {"active_allocated", "inactive"} else "wrong state"


def _lost(right: dict[str, Any], run: dict[str, Any]) -> bool:
    """Whether the device was asked twice, as it should be, and the segment that it gave is not in the snapshot."""
    twice = sum(call == "malloc" for call, _ in run["device"]) == 2
    listed = {segment[0] for segment in run["snapshot"]}
    return twice and run["device"] == right["device"] and any(one[0] not in listed for one in right["snapshot"])


def _difference(right: dict[str, Any], run: dict[str, Any]) -> str:
    for what in ("device", "answer", "snapshot"):
        if right[what] != run[what] and what == "snapshot":
            return f"snapshot: found {_besides(run[what], right[what])}, wanted {_besides(right[what], run[what])}"
        if right[what] != run[what]:
            return f"{what}: found {_short(run[what])}, wanted {_short(right[what])}"
    raise ValueError("the two runs are alike")


def _besides(segments: list[Any] | None, others: list[Any] | None) -> str:
    """In words those segments that are not among the others."""
    text = "; ".join(segment_in_words(one) for one in segments or [] if one not in (others or []))
    return _short(text or ("no further segment" if segments else None))


def _short(found: Any) -> str:
    text = "nothing" if found in (None, []) else str(found)
    return text if len(text) <= 200 else f"{text[:200]} …"


def _in_words(step: Step) -> str:
    return f"malloc of {step[2]:,} bytes on stream {step[3]}" if step[0] == "malloc" else " ".join(map(str, step))
