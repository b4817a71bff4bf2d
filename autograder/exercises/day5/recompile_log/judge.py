"""What really happened: a counting backend of the judge's own, and calls in which only one argument is another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day5.recompile_log.visible import FUNCTIONS, make_calls, tensor

MISCONCEPTIONS = {
    "no log": (
        "`recompile_log` must return a list with one pair of strings for each call: what happened, and the name of an "
        "argument (or an empty string)."
    ),
    "first called a recompilation": "Nothing was there to be reused at the first call: it is `compiled`.",
    "earlier runs leak in": (
        "Asked a second time, your log differs: Dynamo remembers what it compiled before. Begin with "
        "`torch._dynamo.reset()`."
    ),
    "every change counted": (
        "You report a recompilation where only something changed that no guard looks at: the values in a tensor, or an "
        "argument that the function never reads. A guard is about what the compiled code relied on."
    ),
    "one version remembered": (
        "You report a recompilation where the arguments are again as they were earlier on. Dynamo keeps every version "
        "that it compiled, and tries the guards of each."
    ),
    "refused and never compiled": (
        "The same arguments, directly afterwards, are reported as recompiled again: you made Dynamo raise instead of "
        "compiling, and never let it compile the new version. Call once more without the refusal."
    ),
    "sizes became symbols": (
        "A third size was reused in your log: by default Dynamo replaces a size that varies by a symbol. The task "
        "compiles with `dynamic=False`, where each size has a version of its own."
    ),
    "guards on sizes only": (
        "You missed a recompilation that has nothing to do with sizes: guards also look at a tensor's dtype, its "
        "strides and whether it requires a gradient, and at values and types of Python arguments that are read."
    ),
    "missed a recompilation": "You missed a recompilation: a size differs from that of every version so far.",
    "wrong argument": (
        "You blame an argument on which no guard failed. Of several arguments that changed, only those count that "
        "the compiled code relied on: read the guard that failed, not the list of changes. And look for "
        "whole names: `at` stands in `size_at`, too."
    ),
    "another version's guard": (
        "You blame an argument on which the first version has no failed guard: it has the same value as in the first "
        "call. Dynamo names a guard for each version that it has; the task asks for that of the first one, `0/0`."
    ),
    "no argument": "For `recompiled` give the name of the argument, and nothing else; otherwise an empty string.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes, other orders, changes that nothing guards beside those that something does."""
    rows = random.sample(range(2, 9), 3)
    image: dict[str, Any] = {
        "image": tensor([rows[0], 3]),
        "gain": tensor([]),
        "bright": random.random() < 0.5,
        "note": "a",
    }
    changes: list[dict[str, Any]] = [
        {"image": tensor([rows[1], 3]), "note": "b"},
        {"image": tensor([rows[2], 3], seed=2)},
        {"bright": not image["bright"], "note": "c"},
        {"gain": tensor([], "float64"), "note": "d"},
        {"note": "e"},
        {"image": tensor([rows[0], 3], seed=random.randint(1, 99))},
    ]
    random.shuffle(changes)
    calls = [image, *(image | change for change in changes), image | changes[0], image | changes[0]]
    width, steps = random.sample(range(2, 6), 2), random.sample(range(1, 5), 3)
    state: dict[str, Any] = {"state": tensor([width[0]]), "pull": tensor([1]), "steps": steps[0], "label": "x"}
    more: list[dict[str, Any]] = [
        {"steps": steps[1], "label": "y"},
        {"steps": steps[2]},
        {"state": tensor([width[1]])},
        {"label": "z"},
    ]
    random.shuffle(more)
    return [
        *fixed_cases(),
        Case("hidden 0", {"function": "shade", "calls": calls}),
        Case("hidden 1", {"function": "settle", "calls": [state, *(state | change for change in more), state]}),
    ]


def fixed_cases() -> list[Case]:
    """What no seed decides: unguarded arguments in every place, and versions whose guards differ."""
    one: dict[str, Any] = {
        "label": "a", "left": tensor([4, 3]), "note": 1, "right": tensor([4, 3], seed=1), "sharp": True, "hint": 0.5,
    }  # fmt: skip
    unguarded: list[dict[str, Any]] = [
        {"label": "b"},
        {"note": 2, "hint": 1.5},
        {"label": "c", "left": tensor([4, 3], "float64"), "note": 3},
        {"label": "d", "note": 4, "sharp": False, "hint": 2.5},
        {"label": "e", "note": 5, "right": tensor([4, 3], "float64"), "sharp": False, "hint": 3.5},
        {"label": "f", "left": tensor([4, 3], kind="turned")},
        {"note": 6, "right": tensor([4, 3], seed=1, kind="leaf")},
        {"hint": 4.5},
    ]
    image: dict[str, Any] = {"image": tensor([4, 3]), "gain": tensor([]), "bright": True, "note": "a"}
    versions: list[dict[str, Any]] = [
        {"image": tensor([5, 3])},
        {"bright": False},
        {"image": tensor([5, 3]), "bright": False},
        {"image": tensor([6, 3])},
        {"gain": tensor([], "float64")},
        {"bright": False, "note": "b"},
        {"image": tensor([5, 3], seed=4)},
    ]
    off: dict[str, Any] = {"values": tensor([3]), "amount": 2, "on": False}
    sides: list[dict[str, Any]] = [
        {"amount": 3},
        {"amount": 3, "on": True},
        {"amount": 3.0, "on": True},
        {"amount": 4, "on": True},
        {"on": True},
    ]
    short: dict[str, Any] = {"a": "b", "size": 3, "at": "c", "size_at": tensor([6]), "by": 1}
    shorter: list[dict[str, Any]] = [
        {"a": "d", "size": 4, "at": "e"},
        {"a": "f", "size": 5, "size_at": tensor([7])},
        {"size": 6, "at": "g", "by": 2},
        {"a": "h", "at": "i", "size_at": tensor([6], "float64")},
    ]
    return [
        Case("hidden short names", {"function": "crop", "calls": [short, *(short | change for change in shorter)]}),
        Case("hidden one side", {"function": "shift", "calls": [off, *(off | change for change in sides), off]}),
        Case("hidden unguarded", {"function": "blend", "calls": [one, *(one | change for change in unguarded), one]}),
        Case("hidden versions", {"function": "shade", "calls": [image, *(image | change for change in versions)]}),
        Case("hidden one call", {"function": "settle", "calls": [
            {"state": tensor([2]), "pull": tensor([1]), "steps": 1, "label": "x"}
        ]}),
    ]  # fmt: skip


def compilations(function: Callable[..., Any], calls: list[dict[str, Any]]) -> list[int]:
    """How often each call compiles, from a clean state."""
    compiled = [0]

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled[-1] += 1
        return graph_module.forward

    torch._dynamo.reset()
    run = torch.compile(function, backend=backend, dynamic=False)
    for call in calls:
        compiled.append(0)
        run(**call)
    torch._dynamo.reset()
    return compiled[1:]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    function, calls, given = FUNCTIONS[case.parameters["function"]], make_calls(case), case.parameters["calls"]
    log, again = evidence.values["logs"]
    if log is None or len(log) != len(calls):
        yield "no log", ""
        return
    truth = compilations(function, calls)
    words = ["compiled", *("recompiled" if count else "reused" for count in truth[1:])]
    if log[0][0] != "compiled":
        yield ("first called a recompilation" if log[0][0] == "recompiled" else "earlier runs leak in"), ""
        return
    for i, ((said, _), happened) in enumerate(zip(log, words, strict=True)):
        if said != happened:
            yield _why(given, i, happened), f"(call {i + 1}: {said!r} instead of {happened!r})"
            return
    for i, (happened, name) in enumerate(log):
        if happened != "recompiled" and name == "":
            continue
        if happened != "recompiled" or name not in calls[0]:
            yield "no argument", f"(call {i + 1}: {name[:40]!r})"
            return
        # Only this argument is another than in the first call: does that alone make Dynamo compile?
        if not compilations(function, [calls[0], calls[0] | {name: calls[i][name]}])[1]:
            same = repr(given[i][name]) == repr(given[0][name])
            yield ("another version's guard" if same else "wrong argument"), f"(call {i + 1}: {name})"
            return
    if again != log:
        yield "earlier runs leak in", ""


def _why(given: list[dict[str, Any]], i: int, happened: str) -> str:
    """The misconception under which one would get call `i` wrong."""
    told = [repr(call) for call in given]  # in Python 2 == 2.0, and a guard tells them apart
    if happened == "reused":
        if told[i] == told[i - 1]:
            return "refused and never compiled" if told[i] != told[0] else "every change counted"
        return "one version remembered" if told[i] in told[:i] else "every change counted"
    shapes = [{name: value[1] for name, value in call.items() if isinstance(value, list)} for call in given]
    if shapes[i] in shapes[:i]:
        return "guards on sizes only"
    return "sizes became symbols" if len({str(shape) for shape in shapes[:i]}) > 1 else "missed a recompilation"
