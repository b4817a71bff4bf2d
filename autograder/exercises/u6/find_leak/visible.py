"""The learner's side: training loops as objects that refer to one another, the probe, and what the check shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

LONGEST = 60
"""Characters of a holder's name that become evidence."""

MOST_HOLDERS = 50

Snapshot = dict[str, Any]
"""`variables`, a list of names of objects, and `objects`: for each name its `bytes` and what it `refers_to`."""


class Loop:
    """A training loop after some steps, described by what refers to what.

    Attributes:
        objects: bytes and references of everything that was ever made.
        variables: names of the objects that a variable holds.
    """

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, list[str]]] = {}
        self.variables: list[str] = []

    def put(self, name: str, size: int, *refers_to: str) -> str:
        """Make an object, and return its name."""
        self.objects[name] = (size, list(refers_to))
        return name

    def refer(self, name: str, *others: str) -> None:
        """Let an object refer to others, too."""
        self.objects[name][1].extend(others)

    def snapshot(self) -> Snapshot:
        """What reference counting leaves: all but what nothing refers to."""
        living = set(self.objects)
        while True:
            held = {*self.variables, *(other for name in living for other in self.objects[name][1])}
            if living <= held:
                break
            living &= held
        objects = {
            name: {"bytes": size, "refers_to": list(others)}
            for name, (size, others) in self.objects.items()
            if name in living
        }
        return {"variables": list(self.variables), "objects": objects}


def visible_cases() -> list[Case]:
    """Losses in a list, one that is replaced, and a cycle."""
    return [
        leaky("losses in a list", ["losses"]),
        leaky("the last one", ["last", "numbers"]),
        leaky("cycles", ["cycle", "losses"]),
    ]


def leaky(name: str, features: Iterable[str], sizes: Iterable[int] = (4096, 65536), steps: int = 3) -> Case:
    """A case from the features of a training loop (names in `_feature`), the same after one more step."""
    small, large = sizes
    listed = list(features)
    return Case(
        name,
        {
            "before": _after(listed, small, large, steps).snapshot(),
            "after": _after(listed, small, large, steps + 1).snapshot(),
        },
    )


def _after(features: list[str], small: int, large: int, steps: int) -> Loop:
    loop = Loop()
    loop.put("trainer", 64)
    loop.variables = ["trainer"]
    for number, feature in enumerate(features):
        suffix = f" of {number}" if features.count(feature) > 1 else ""
        holder = loop.put(f"{feature}{suffix}", 56)
        loop.refer("trainer", holder)
        for step in range(steps):
            _feature(loop, feature, holder, f"{step}{suffix}", small, large, step == steps - 1)
    return loop


def _feature(loop: Loop, feature: str, holder: str, step: str, small: int, large: int, newest: bool) -> None:
    """What one step of the loop leaves behind."""
    activation = loop.put(f"{feature}: activation {step}", large)
    if feature == "losses":  # history.append(loss)
        graph = loop.put(f"{feature}: graph {step}", small, activation)
        loop.refer(holder, loop.put(f"{feature}: loss {step}", 4, graph))
    elif feature == "numbers":  # history.append(loss.item())
        loop.refer(holder, loop.put(f"{feature}: number {step}", 24))
    elif feature == "last":  # self.last = loss
        if newest:
            loop.refer(holder, activation)
    elif feature == "cycle":  # context.result = result, and result.context = context
        context = loop.put(f"{feature}: context {step}", small)
        result = loop.put(f"{feature}: result {step}", small, context, activation)
        loop.refer(context, result)
    elif feature == "held cycle":  # the same, kept in a list
        context = loop.put(f"{feature}: context {step}", small, activation)
        loop.refer(context, context)
        loop.refer(holder, context)
    elif feature == "hooks":  # register_hook again and again, each with a closure
        closure = loop.put(f"{feature}: closure {step}", small, activation, "trainer")
        loop.refer(holder, loop.put(f"{feature}: hook {step}", 48, closure))
    elif feature == "cache":  # kept in a cache, and in a list of those in use
        loop.refer(holder, activation)
        loop.refer(f"{feature} users" if f"{feature} users" in loop.objects else _users(loop, feature), activation)
    elif feature == "variable":  # kept in a list, while a variable of the loop holds the newest as well
        graph = loop.put(f"{feature}: graph {step}", small, activation)
        loss = loop.put(f"{feature}: loss {step}", 4, graph)
        loop.refer(holder, loss)
        if newest:
            loop.variables.append(loss)
    elif feature == "shared with garbage":  # a cycle that nobody reaches refers to what a list holds
        one = loop.put(f"{feature}: one {step}", small, activation)
        loop.refer(one, loop.put(f"{feature}: other {step}", small, one))
        loop.refer(holder, activation)
    elif feature == "twice":  # the same object twice in the list
        loop.refer(holder, activation, activation)
    elif feature == "grows inside":  # a list within the newest object grows, too
        inner = loop.put(f"{feature}: inner {step}", small, activation, loop.put(f"{feature}: part {step}", small))
        loop.refer(holder, inner)
    elif feature == "old friends":  # one more reference to what was there all the time
        loop.refer(holder, "trainer")
    elif feature == "wrapped anew":  # new objects around what was there before
        if newest:
            count = int(step.split()[0]) + 1
            suffix = step.removeprefix(str(count - 1))
            for number in range(count):
                wrapper = loop.put(f"{feature}: wrapper {number} after {step}", small)
                loop.refer(wrapper, f"{feature}: activation {number}{suffix}")
                loop.refer(holder, wrapper)
    elif feature == "handed over":  # what was the newest goes from a variable into the list
        if newest:
            loop.variables.append(activation)
        else:
            loop.refer(holder, activation)
    elif feature == "smaller and more":  # more parts take the place of fewer, which were larger together
        if newest:
            count = int(step.split()[0]) + 1
            parts = [loop.put(f"{feature}: part {number} after {step}", small // count**2) for number in range(count)]
            loop.refer(holder, *parts)
    elif feature == "larger":  # the newest takes the place of a smaller one
        if newest:
            loop.refer(holder, loop.put(f"{feature}: sum {step}", small * (int(step.split()[0]) + 1)))
    elif feature == "replaced by more":  # a longer list takes the place of a shorter one
        if newest:
            count = int(step.split()[0]) + 1
            parts = [loop.put(f"{feature}: part {number} after {step}", small) for number in range(count)]
            loop.refer(holder, *parts)
    else:
        raise ValueError(f"there is no feature {feature!r}")


def _users(loop: Loop, feature: str) -> str:
    users = loop.put(f"{feature} users", 56)
    loop.refer("trainer", users)
    return users


def probe(case: Case, find_leak: Any) -> Evidence:
    """Ask what grows between the two snapshots."""
    with torch_calls() as called:
        found = find_leak(case.parameters["before"], case.parameters["after"])
    known = found if isinstance(found, dict) else {}
    holders = known.get("holders")
    named = holders if isinstance(holders, dict) and len(holders) <= MOST_HOLDERS else None
    return Evidence(
        {
            "garbage": _number(known.get("garbage")),
            "holders": None if named is None else {str(name)[:LONGEST]: _number(size) for name, size in named.items()},
            "torch_calls": called[:3],
        }
    )


def _number(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The objects of the later snapshot, and what was found."""
    before, after = case.parameters["before"], case.parameters["after"]
    lines = [f"{case.name}: objects after the step (+ is new), variables: {', '.join(after['variables'])}"]
    for name, one in after["objects"].items():
        sign = " " if name in before["objects"] else "+"
        lines.append(f"  {sign} {name} ({one['bytes']:,} bytes) → {', '.join(one['refers_to']) or 'nothing'}")
    holders = evidence.values["holders"]
    told = (
        "no dictionary" if holders is None else ", ".join(f"{name}: {size}" for name, size in holders.items()) or "none"
    )
    lines += [f"  garbage: {evidence.values['garbage']}", f"  holders: {told}"]
    return ["\n".join(lines)]
