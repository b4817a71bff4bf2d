"""What grows between two snapshots, counted as CPython would, and with one flaw.

Without a flaw it agrees with what CPython frees and what its collector finds (a test builds the objects).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Any

from autograder.exercises.u6.find_leak.visible import Snapshot

FLAWS = (
    "no garbage",
    "cycles only",
    "only new ones count",
    "zeros left out",
    "replaced counts",
    "bytes compared",
    "holders not in use",
    "new holders",
    "held directly only",
    "garbage holds nothing",
    "cycles freed",
    "old ones dropped too",
    "only new ones freed",
    "names compared",
    "new to the holder",
    "variables forgotten",
    "shared counted",
    "references counted once",
)

MOST_ORDERED = 5
"""Holders whose orders are all tried; with more, nothing is recognised."""

Found = dict[str, Any]


def reached(snapshot: Snapshot, start: Iterable[str]) -> set[str]:
    """Everything that some objects lead to, themselves included."""
    found: set[str] = set()
    waiting = [name for name in start if name in snapshot["objects"]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += snapshot["objects"][name]["refers_to"]
    return found


def find_leak(before: Snapshot, after: Snapshot, flaw: str = "") -> Found:
    """Garbage and holders of the later snapshot, with one flaw or none."""
    objects = after["objects"]
    in_use = reached(after, after["variables"])
    unreached = set(objects) - in_use
    if flaw == "no garbage":
        unreached = set()
    if flaw == "cycles only":
        unreached = {name for name in unreached if name in reached(after, objects[name]["refers_to"])}
    held_before = reached(before, before["variables"])
    holders = {}
    for name, one in objects.items():
        if (name not in in_use or name not in held_before) and not _excused(name, in_use, before, flaw):
            continue
        earlier = before["objects"].get(name, {"refers_to": []})["refers_to"]
        known = earlier if flaw == "new to the holder" else before["objects"]
        new = [other for other in one["refers_to"] if other not in known]
        grown = bool(new) if flaw == "replaced counts" else len(one["refers_to"]) > len(earlier)
        if flaw == "names compared":
            grown = len({*one["refers_to"]}) > len({*earlier})
        if flaw == "bytes compared":
            grown = _bytes(after, one["refers_to"]) > _bytes(before, earlier)
        if grown and (new or flaw != "only new ones count"):
            dropped = one["refers_to"] if flaw == "old ones dropped too" else new
            holders[name] = freed(before, after, name, dropped, flaw)
            if flaw == "zeros left out" and not holders[name]:
                del holders[name]
    return {"garbage": sum(objects[name]["bytes"] for name in unreached), "holders": holders}


def _bytes(snapshot: Snapshot, names: Iterable[str]) -> int:
    return sum(snapshot["objects"][name]["bytes"] for name in names)


def one_count(before: Snapshot, after: Snapshot, holders: Iterable[str]) -> Iterator[dict[str, int]]:
    """What is found with one count for all holders, which is never put back, in every order that can be tried."""
    objects = after["objects"]
    for order in permutations(sorted(holders)[:MOST_ORDERED]):
        counts = Counter[str](after["variables"])
        for one in objects.values():
            counts.update(one["refers_to"])
        found: dict[str, int] = {}
        for holder in order:
            waiting, found[holder] = [name for name in objects[holder]["refers_to"] if name not in before["objects"]], 0
            while waiting:
                name = waiting.pop()
                counts[name] -= 1
                if counts[name] == 0:
                    found[holder] += objects[name]["bytes"]
                    waiting += objects[name]["refers_to"]
        yield found


def _excused(name: str, in_use: set[str], before: Snapshot, flaw: str) -> bool:
    if flaw == "holders not in use":
        return name in before["objects"]
    return flaw == "new holders" and name in in_use


def freed(before: Snapshot, after: Snapshot, holder: str, dropped: list[str], flaw: str = "") -> int:
    """Bytes that go at once when an object lets go of some others, with one flaw or none."""
    objects = after["objects"]
    if flaw == "held directly only":
        return sum(objects[name]["bytes"] for name in set(dropped))
    if flaw == "shared counted":
        return sum(objects[name]["bytes"] for name in reached(after, dropped) - set(before["objects"]))
    if flaw == "cycles freed":
        cut = {**objects, holder: {**objects[holder], "refers_to": _without(objects[holder]["refers_to"], dropped)}}
        still = reached({"objects": cut, "variables": []}, after["variables"])
        return sum(objects[name]["bytes"] for name in reached(after, after["variables"]) - still)
    counts: Counter[str] = Counter()
    in_use = reached(after, after["variables"])
    for name, one in objects.items():
        if flaw == "garbage holds nothing" and name not in in_use:
            continue
        counts.update(one["refers_to"])
    if flaw != "variables forgotten":
        counts.update(after["variables"])
    waiting, gone = list(set(dropped) if flaw == "references counted once" else dropped), set[str]()
    while waiting:
        name = waiting.pop()
        counts[name] -= 1
        if flaw == "only new ones freed" and name in before["objects"]:
            continue
        if counts[name] <= 0 and name not in gone:
            gone.add(name)
            waiting += objects[name]["refers_to"]
    return sum(objects[name]["bytes"] for name in gone)


def _without(listed: list[str], dropped: list[str]) -> list[str]:
    left = Counter(dropped)
    kept = []
    for name in listed:
        if left[name]:
            left[name] -= 1
        else:
            kept.append(name)
    return kept
