"""The hidden programs: one case for each rule that is easily forgotten, then programs that are drawn."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.u1.own_module.visible import Framework, Step, program, run

NAMES = ("w", "b", "scale", "mean", "layer1", "layer2")
"""Names of attributes in what is drawn. Few, so that one name becomes this and then that.

None is a word that the message of an error is likely to have beside the names."""


def hidden_cases(random: Random, pytorch: Framework) -> list[Case]:
    """The hidden cases.

    Args:
        random: what draws the last ones.
        pytorch: says which names a state has, when a program is drawn.
    """
    drawn = [[random_program(random, pytorch) for _ in range(6)] for _ in range(3)]
    return [
        *(Case(name, {"programs": programs}) for name, programs in FIXED.items()),
        *(Case(f"random {number}", {"programs": programs}) for number, programs in enumerate(drawn)),
    ]


FIXED: dict[str, list[list[Step]]] = {
    "one name, one place": [
        program(
            ["set", "M0", "a", 5],
            ["set", "M0", "a", "P1"],
            ["buffer", "M0", "b", "T1", True],
            ["set", "M0", "b", "P2"],
            ["set", "M0", "c", "M1"],
            ["set", "M0", "c", "P3"],
            ["del", "M0", "a"],
            ["set", "M0", "a", 6],
            ["del", "M0", "a"],
        ),
        program(
            ["set", "M0", "a", "T1"],
            ["set", "M0", "a", "M1"],
            ["buffer", "M0", "b", "T2", False],
            ["set", "M0", "b", "M2"],
            ["del", "M0", "b"],
            ["del", "M0", "a"],
            ["buffer", "M0", "a", "T3", True],
        ),
    ],
    "order": [
        program(
            ["buffer", "M0", "a", "T1", True],
            ["set", "M0", "b", "M1"],
            ["buffer", "M0", "c", "T2", False],
            ["set", "M0", "w", "P1"],
            ["set", "M0", "d", "M2"],
            ["set", "M0", "a", "P2"],
            ["set", "M0", "b", "P3"],
            ["set", "M0", "c", "M3"],
        ),
        program(
            ["set", "M0", "a", "P1"],
            ["set", "M0", "b", "P2"],
            ["set", "M0", "a", "P3"],
            ["del", "M0", "a"],
            ["set", "M0", "a", "P1"],
            ["buffer", "M0", "mean", "T1", True],
            ["set", "M0", "c", "P4"],
        ),
        program(
            ["set", "M2", "w", "P1"],
            ["set", "M1", "inner", "M2"],
            ["set", "M3", "w", "P2"],
            ["set", "M0", "layer1", "M1"],
            ["set", "M0", "layer2", "M3"],
            ["set", "M1", "w", "P3"],
            ["set", "M0", "w", "P4"],
            ["buffer", "M2", "mean", "T1", True],
            ["buffer", "M0", "mean", "T2", True],
            ["set", "M0", "layer1", "M4"],
            ["apply", "M0"],
        ),
    ],
    "None": [
        program(
            ["parameter", "M0", "bias", None],
            ["set", "M0", "w", "P1"],
            ["set", "M0", "bias", "T1"],
            ["set", "M0", "bias", "P2"],
            ["set", "M0", "bias", None],
            ["set", "M0", "bias", 3],
            ["load", "M0", {"w": [1, 2], "bias": [3, 4, 5]}, True],
        ),
        program(
            ["buffer", "M0", "mean", None, True],
            ["set", "M0", "mean", "T1"],
            ["set", "M0", "mean", None],
            ["set", "M0", "child", "M1"],
            ["set", "M0", "child", None],
            ["set", "M0", "child", "T2"],
            ["eval", "M0"],
            ["apply", "M0"],
            ["set", "M0", "child", "M2"],
        ),
    ],
    "what a name takes": [
        program(
            ["set", "M0", "w", "P1"],
            ["set", "M0", "w", 3],
            ["set", "M0", "w", "T1"],
            ["set", "M0", "w", "M1"],
            ["set", "M0", "child", "M2"],
            ["set", "M0", "child", "T1"],
            ["set", "M0", "child", "P2"],
            ["buffer", "M0", "mean", "T2", True],
            ["set", "M0", "mean", 3],
            ["set", "M0", "mean", "T3"],
        ),
    ],
    "registering": [
        program(
            ["parameter", "M0", "w", "P1"],
            ["parameter", "M0", "w", "P2"],
            ["parameter", "M0", "v", "T1"],
            ["parameter", "M0", "v", 3],
            ["buffer", "M0", "w", "T1", True],
            ["buffer", "M0", "mean", 3, True],
            ["buffer", "M0", "mean", "T1", True],
            ["parameter", "M0", "mean", "P3"],
            ["parameter", "M0", "mean", None],
            ["buffer", "M0", "mean", "T2", False],
            ["buffer", "M0", "mean", "T4", True],
        ),
        program(
            ["set", "M0", "size", 3],
            ["buffer", "M0", "size", "T1", True],
            ["parameter", "M0", "size", "P1"],
            ["set", "M0", "child", "M1"],
            ["buffer", "M0", "child", "T1", True],
            ["buffer", "M0", "train", "T1", True],
            ["parameter", "M0", "training", "P1"],
            ["buffer", "M0", "describe", "T1", True],
            ["parameter", "M1", "describe", None],
            ["parameter", "M0", "a.b", "P1"],
            ["buffer", "M0", ".", "T1", False],
            ["parameter", "M0", "", "P1"],
            ["buffer", "M0", "", "T1", True],
        ),
    ],
    "registering again": [
        program(
            ["parameter", "M0", "w", "P1"],
            ["set", "M0", "w", None],
            ["parameter", "M0", "w", "P2"],
            ["buffer", "M0", "mean", "T1", True],
            ["set", "M0", "mean", "T2"],
            ["buffer", "M0", "mean", "T4", True],
            ["set", "M0", "mean", None],
            ["buffer", "M0", "mean", "T5", False],
        ),
        program(
            ["buffer", "M0", "mask", "T1", False],
            ["del", "M0", "mask"],
            ["parameter", "M0", "mask", "P1"],
            ["set", "M0", "w", "P2"],
            ["del", "M0", "w"],
            ["parameter", "M0", "w", "P3"],
        ),
    ],
    "persistence": [
        program(
            ["buffer", "M0", "mask", "T1", False],
            ["buffer", "M0", "mean", "T2", True],
            ["set", "M0", "mask", "T3"],
            ["set", "M0", "mask", None],
            ["set", "M0", "mask", "T4"],
            ["load", "M0", {"mean": [4, 5, 6], "mask": [7, 8]}, True],
            ["set", "M0", "mask", "P1"],
            ["del", "M0", "mask"],
            ["buffer", "M0", "mask", "T1", True],
            ["set", "M1", "mask", "P2"],
            ["set", "M0", "child", "M1"],
        ),
    ],
    "shared": [
        program(
            ["set", "M0", "a", "P1"],
            ["set", "M0", "b", "P1"],
            ["set", "M1", "w", "P1"],
            ["buffer", "M1", "mean", "T1", True],
            ["set", "M0", "layer1", "M1"],
            ["set", "M0", "layer2", "M1"],
            ["set", "M2", "inner", "M1"],
            ["set", "M0", "last", "M2"],
            ["buffer", "M2", "mean", "T1", True],
            ["apply", "M0"],
            ["eval", "M2"],
            [
                "load",
                "M0",
                {
                    **{name: [8, 9] for name in ("a", "b", "layer1.w", "layer2.w", "last.inner.w")},
                    **{name: [5, 6] for name in ("layer1.mean", "layer2.mean", "last.mean", "last.inner.mean")},
                },
                True,
            ],
            ["set", "M0", "a", None],
            ["set", "M0", "layer1", None],
        ),
    ],
    "equal, but not the same": [
        program(
            ["set", "M1", "w", "P1"],
            ["set", "M2", "w", "P4"],
            ["buffer", "M1", "mean", "T1", True],
            ["buffer", "M2", "mean", "T4", True],
            ["set", "M0", "layer1", "M1"],
            ["set", "M0", "layer2", "M2"],
            ["set", "M0", "empty1", "M3"],
            ["set", "M0", "empty2", "M4"],
            [
                "load",
                "M0",
                {name: [8, 9] for name in ("layer1.w", "layer2.w", "layer1.mean", "layer2.mean")},
                True,
            ],
            ["apply", "M0"],
            ["eval", "M0"],
        ),
    ],
    "shared, and loaded with other numbers": [
        program(
            ["set", "M0", "w", "P1"],
            ["set", "M0", "bias", "P1"],
            ["set", "M1", "w", "P1"],
            ["set", "M0", "layer1", "M1"],
            ["set", "M0", "layer2", "M1"],
            ["load", "M0", {"w": [1, 2], "bias": [3, 4], "layer1.w": [5, 6], "layer2.w": [7, 8]}, True],
            ["load", "M0", {"w": [1, 2], "bias": [3, 4]}, False],
            ["load", "M0", {"w": [5, 6], "bias": [3], "layer1.w": [1, 2, 3]}, False],
            ["load", "M0", {"w": [5, 6]}, True],
        ),
    ],
    "its own state": [
        program(
            ["set", "M0", "w", "P1"],
            ["set", "M0", "b", "P2"],
            ["buffer", "M1", "mean", "T1", True],
            ["set", "M0", "block", "M1"],
            ["load", "M0", {"w": "P1", "b": "P2", "block.mean": "T1"}, True],
            ["load", "M0", {"w": [1, 2], "block.mean": "T1"}, False],
        ),
    ],
    "a parameter as a buffer": [
        program(
            ["buffer", "M0", "mean", "P1", True],
            ["buffer", "M0", "mask", "P2", False],
            ["set", "M0", "w", "P1"],
            ["set", "M0", "mean", "T1"],
            ["load", "M0", {"mean": [4, 5], "w": [6, 7]}, True],
        ),
    ],
    "deleting": [
        program(
            ["set", "M0", "w", "P1"],
            ["buffer", "M0", "mean", "T1", True],
            ["set", "M0", "child", "M1"],
            ["set", "M0", "size", 3],
            ["del", "M0", "w"],
            ["del", "M0", "w"],
            ["del", "M0", "mean"],
            ["del", "M0", "child"],
            ["del", "M0", "size"],
            ["del", "M0", "size"],
            ["set", "M0", "w", "T1"],
            ["set", "M0", "mean", 3],
            ["set", "M0", "child", "T2"],
        ),
    ],
    "before the constructor": [program(["early", "P1"], ["early", "M1"], ["early", "T1"], ["early", 3])],
    "training": [
        program(
            ["set", "M1", "inner", "M2"],
            ["set", "M0", "child", "M1"],
            ["eval", "M0"],
            ["train", "M1"],
            ["train", "M0", False],
            ["set", "M0", "other", "M3"],
            ["train", "M2", True],
            ["eval", "M3"],
        ),
    ],
    "loading": [
        program(
            ["set", "M0", "w", "P1"],
            ["set", "M0", "b", "P2"],
            ["buffer", "M0", "mean", "T1", True],
            ["buffer", "M1", "mean", "T2", True],
            ["set", "M0", "block", "M1"],
            ["load", "M0", {"w": [1, 2], "b": [3], "extra": [4], "block.extra": [5], "ghost.w": [6]}, True],
            ["load", "M0", {"w": [7], "b": [8, 8, 8], "mean": [9, 9], "block.mean": [1, 1]}, True],
            ["load", "M0", {"w": [7, 7], "b": [8], "block.ghost": [1]}, False],
            ["load", "M0", {"block.mean": [3, 3, 3], "mean": [2, 2], "block": [1]}, False],
            ["load", "M0", {"w": [1, 3], "b": [4, 5, 6], "mean": [2, 2], "block.mean": [1, 1, 1]}, True],
            ["load", "M1", {"mean": [6, 6, 6]}, True],
            ["load", "M0", {}, False],
            ["load", "M0", {}, True],
        ),
    ],
    # Whole numbers as large as these sizes are objects of their own, each time one asks for them.
    "many numbers": [
        program(
            ["set", "M0", "w", "P300"],
            ["set", "M0", "cache", "T300"],
            ["load", "M0", {"w": "T300"}, True],
            ["set", "M0", "cache", "T301"],
            ["load", "M0", {"w": "T301"}, False],
        ),
    ],
    # One path begins with the letters of another, and is none of what lies below it.
    "names in other names": [
        program(
            ["set", "M1", "w", "P1"],
            ["set", "M2", "w", "P2"],
            ["set", "M0", "net", "M1"],
            ["set", "M0", "net2", "M2"],
            ["set", "M0", "net_scale", "P3"],
            ["load", "M0", {"net.w": [1, 2], "net2.w": [3, 4, 5], "net_scale": [6]}, True],
            ["load", "M0", {"net.w": [1, 2], "net2.x": [3], "net_shift": [6], "ne": [7]}, False],
        ),
    ],
}


def random_program(random: Random, pytorch: Framework) -> list[Step]:
    """Up to a dozen changes of a tree of four modules, then two states to be loaded."""
    steps: list[Step] = [["set", "M0", "layer1", "M1"]]
    steps += [_random_step(random) for _ in range(random.randint(8, 12))]
    for _ in range(2):
        steps.append(_random_load(random, run(steps, pytorch)[-1]))
    return steps


def _random_step(random: Random) -> Step:
    number = random.choice([0, 0, 1, 1, 2, 3])
    module, name = f"M{number}", random.choice(NAMES)
    kind = random.choices(["set", "parameter", "buffer", "del", "eval", "train", "apply"], [12, 2, 4, 3, 1, 1, 1])[0]
    if kind in ("eval", "apply"):
        return [kind, module]
    if kind == "train":
        return [kind, module, random.random() < 0.5]
    if kind == "del":
        return [kind, module, name]
    parameter, tensor = f"P{random.randrange(4)}", f"T{random.randrange(4)}"
    if kind == "parameter":
        return [kind, module, name, random.choice([parameter, parameter, None, tensor])]
    if kind == "buffer":
        return [kind, module, name, random.choice([tensor, tensor, None, 3]), random.random() < 0.6]
    values: list[Any] = [parameter] * 4 + [tensor] * 2 + [None] * 2 + [3]
    # A module only holds those with higher numbers, so that none is inside itself.
    values += [f"M{random.randrange(number + 1, 4)}"] * 5 if number < 3 else []
    return ["set", module, name, random.choice(values)]


def _random_load(random: Random, seen: dict[str, Any]) -> Step:
    state: dict[str, list[int]] = {}
    drawn: dict[str, list[int]] = {}
    for name, label, numbers in seen["state"]:
        # A tensor with two names gets the same numbers by both: no text says which of them is copied last.
        drawn.setdefault(label, [random.randrange(50) for _ in numbers])
        if random.random() < 0.9:
            state[name] = [*drawn[label], 7] if random.random() < 0.1 else drawn[label]
    if random.random() < 0.4:
        prefix = random.choice(["", *(f"{name}." for name, _ in seen["modules"] if name)])
        state[f"{prefix}ghost"] = [1]
    passing = [name for name, _ in seen["buffers"] if name not in {one for one, *_ in seen["state"]}]
    if passing and random.random() < 0.5:
        state[passing[0]] = [2]
    return ["load", "M0", state, random.random() < 0.6]
