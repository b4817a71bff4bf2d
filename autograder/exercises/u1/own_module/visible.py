"""The learner's side: programs that assign, register, delete and load, the probe and what the check shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

ROOT = "M0"
"""The module at the top of the tree that is looked at after each step."""

ERRORS = (AttributeError, KeyError, RuntimeError, TypeError, ValueError)
"""What a step may raise; `RecursionError` is a `RuntimeError`."""

LONGEST, MOST = 300, 40
"""Characters of a message, and names of a walk, that become evidence; the longest right walk is a third of it."""

Step = list[Any]
"""`["set", module, name, value]`, `["del", module, name]`, `["buffer", module, name, value, persistent]`,
`["parameter", module, name, value]`, `["train", module, mode]`, `["eval", module]`, `["apply", module]`,
`["load", module, {name: numbers}, strict]` or `["early", value]`, a class that assigns before `super().__init__()`.

A value is `"P3"` (the parameter number 3), `"T3"` (a tensor), `"M3"` (a module), a number, or `None`."""

PARTS = ("parameters", "buffers", "modules", "children", "state", "training", "got")
"""What is looked at after each step."""


@dataclass(frozen=True)
class Framework:
    """The classes of a module framework, and how to read them.

    Attributes:
        module: the class of modules.
        parameter: makes a parameter of a list of numbers.
        tensor: makes a tensor of a list of numbers.
        numbers: the numbers of a tensor, as a list.
        state: the state of a module, with the tensors themselves.
        overwrite: changes the numbers of a tensor in place.
    """

    module: type[Any]
    parameter: Callable[[list[int]], Any]
    tensor: Callable[[list[int]], Any]
    numbers: Callable[[Any], Any]
    state: Callable[[Any], Any]
    overwrite: Callable[[Any, int], Any]


MANY = 300
"""From this number on a parameter or a tensor has as many numbers as its label says."""


def size_of(label: str) -> int:
    """How many numbers a parameter or a tensor has."""
    number = int(label[1:])
    return number if number >= MANY else 1 + number % 3


def program(*steps: Step) -> list[Step]:
    """Steps, in order."""
    return list(steps)


def visible_cases() -> list[Case]:
    """Assigning, buffers, a tree with shared parts, what must be refused, and saving and loading."""
    return [
        Case(
            "assigning",
            {
                "programs": [
                    program(
                        ["set", "M0", "w", "P1"],
                        ["set", "M0", "b", "P2"],
                        ["set", "M0", "size", 3],
                        ["set", "M0", "size", "P3"],
                        ["set", "M0", "w", "P4"],
                        ["set", "M0", "b", None],
                        ["set", "M0", "b", "P5"],
                        ["del", "M0", "w"],
                    ),
                ]
            },
        ),
        Case(
            "buffers",
            {
                "programs": [
                    program(
                        ["set", "M0", "cache", "T1"],
                        ["buffer", "M0", "mean", "T2", True],
                        ["buffer", "M0", "mask", "T3", False],
                        ["set", "M0", "mean", "T4"],
                        ["set", "M0", "mask", "T5"],
                        ["set", "M0", "mean", "P1"],
                        ["del", "M0", "mask"],
                    ),
                ]
            },
        ),
        Case(
            "a tree",
            {
                "programs": [
                    program(
                        ["set", "M1", "w", "P1"],
                        ["set", "M0", "first", "M1"],
                        ["set", "M0", "scale", "P2"],
                        ["set", "M2", "inner", "M3"],
                        ["set", "M0", "second", "M2"],
                        ["set", "M3", "w", "P1"],
                        ["set", "M3", "b", "P3"],
                        ["eval", "M2"],
                        ["train", "M0", True],
                        ["apply", "M0"],
                    ),
                ]
            },
        ),
        Case(
            "to be refused",
            {
                "programs": [
                    program(
                        ["early", "P1"],
                        ["set", "M0", "w", "P1"],
                        ["set", "M0", "w", "T1"],
                        ["set", "M0", "child", "M1"],
                        ["set", "M0", "child", 3],
                        ["parameter", "M0", "child", "P2"],
                        ["buffer", "M0", "a.b", "T2", True],
                        ["del", "M0", "nothing"],
                    ),
                ]
            },
        ),
        Case(
            "saving and loading",
            {
                "programs": [
                    program(
                        ["set", "M0", "w", "P1"],
                        ["buffer", "M0", "mean", "T0", True],
                        ["set", "M1", "w", "P2"],
                        ["set", "M0", "block", "M1"],
                        ["load", "M0", {"w": [1, 2], "mean": [3], "block.w": [4, 5, 6]}, True],
                        ["load", "M0", {"w": [7, 8], "other": [9]}, False],
                        ["load", "M0", {"w": [0, 0], "mean": [1, 1], "block.b": [2]}, True],
                    ),
                ]
            },
        ),
    ]


def run(steps: list[Step], given: Framework) -> list[dict[str, Any]]:
    """What each step does, and how everything looks after it.

    Args:
        steps: the program.
        given: whose modules they are.
    """
    objects = _objects(steps, given)
    return [{**_outcome(given, objects, step), **_look(given, objects, step)} for step in steps]


def _objects(steps: list[Step], given: Framework) -> dict[str, Any]:
    """What a program speaks of, by label."""
    labels = {one for step in steps for one in step if isinstance(one, str) and re.fullmatch(r"[PTM]\d+", one)}
    objects: dict[str, Any] = {}
    for label in sorted({ROOT, *labels}):
        kind, number = label[0], int(label[1:])
        if kind == "M":
            own = {"describe": lambda module: type(module).__name__}
            objects[label] = type("Net" if label == ROOT else "Block", (given.module,), own)()
        else:
            make = given.parameter if kind == "P" else given.tensor
            objects[label] = make([(100 if kind == "P" else -100) * (number + 1) + i for i in range(size_of(label))])
    return objects


def _outcome(given: Framework, objects: dict[str, Any], step: Step) -> dict[str, Any]:
    kind, *rest = step
    try:
        if kind == "load":
            return _load(given, objects, *rest)
        return {"value": _do(given, objects, kind, rest)}
    except NotImplementedError:
        raise  # Not written yet, which the check says by itself.
    except ERRORS as error:
        return _failed(error)


def _failed(error: Exception) -> dict[str, Any]:
    return {"error": _kind(error), "says": str(error)[:LONGEST]}


def _kind(error: Exception) -> str:
    """The class of an error that is spoken of: not one that somebody derived from it."""
    if isinstance(error, RecursionError):
        return "RecursionError"
    return next(kind.__name__ for kind in ERRORS if isinstance(error, kind))


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w|\.\w)", message) is not None


def _names_in_state(given: Framework, module: Any) -> list[str]:
    try:
        return [str(name) for name in islice(given.state(module), MOST)]
    except NotImplementedError:
        raise
    except ERRORS:
        return []  # What is looked at after the step says so.


def _do(given: Framework, objects: dict[str, Any], kind: str, rest: list[Any]) -> Any:
    if kind == "early":
        return _early(given, objects, _value(objects, rest[0]))
    module = objects[rest[0]]
    if kind == "set":
        setattr(module, rest[1], _value(objects, rest[2]))
    elif kind == "del":
        delattr(module, rest[1])
    elif kind == "buffer":
        persistent = {} if rest[3] else {"persistent": False}
        module.register_buffer(rest[1], _value(objects, rest[2]), **persistent)
    elif kind == "parameter":
        module.register_parameter(rest[1], _value(objects, rest[2]))
    elif kind == "train":
        return _label(objects, module.train(*rest[1:]))
    elif kind == "eval":
        return _label(objects, module.eval())
    else:
        visited: list[Any] = []
        returned = module.apply(lambda one: visited.append(_label(objects, one)))
        return [visited[:MOST], _label(objects, returned)]
    return None


def _early(given: Framework, objects: dict[str, Any], value: Any) -> Any:
    module: Any = given.module

    class Early(module):
        def __init__(self) -> None:
            hasattr(self, "nothing")  # Asking is allowed, too, and says no.
            self.early = value
            super().__init__()

    made = Early()
    return _label(objects, made.early) if hasattr(made, "early") else "lost"


def _load(given: Framework, objects: dict[str, Any], label: str, state: dict[str, Any], strict: bool) -> dict[str, Any]:
    # In the place of numbers a label may stand: that very tensor, as when a module is given its own state.
    tensors = {
        name: _value(objects, one) if isinstance(one, str) else given.tensor(list(one)) for name, one in state.items()
    }
    made = [tensors[name] for name, one in state.items() if not isinstance(one, str)]
    options = {} if strict else {"strict": False}
    before = list(tensors.items())
    try:
        told: dict[str, Any] = {"value": _lists(objects[label].load_state_dict(tensors, **options))}
    except NotImplementedError:
        raise  # Not written yet, which the check says by itself.
    except ERRORS as error:
        names = {*state, *_names_in_state(given, objects[label])}
        told = _failed(error) | {"named": sorted(name for name in names if _names(str(error), name))}
    same = len(before) == len(tensors) and all(tensors.get(name) is one for name, one in before)
    for tensor in made:
        given.overwrite(tensor, -1)  # Whoever kept the list now has other numbers.
    return told | {"the state stays": same}


def _lists(found: Any) -> list[list[str]] | None:
    """What loading gave, if it is a pair of lists of paths."""
    if not isinstance(found, (tuple, list)) or len(found) != 2 or not all(isinstance(one, list) for one in found):
        return None
    return [sorted(str(name)[:LONGEST] for name in islice(names, MOST)) for names in found]


def _look(given: Framework, objects: dict[str, Any], step: Step) -> dict[str, Any]:
    """Everything that the tree says of itself; a walk that raises has its error in the place of names."""
    root = objects[ROOT]
    modules = {label: one for label, one in objects.items() if label.startswith("M")}
    found: dict[str, Any] = {
        "parameters": _asked(lambda: _pairs(objects, root.named_parameters())),
        "buffers": _asked(lambda: _pairs(objects, root.named_buffers())),
        "modules": _asked(lambda: _pairs(objects, root.named_modules())),
        "children": _asked(lambda: _pairs(objects, root.named_children())),
        "state": _asked(lambda: _state(given, objects, root)),
        "training": {label: _flag(one) for label, one in modules.items()},
    }
    if step[0] in ("set", "del", "buffer", "parameter"):
        found["got"] = _asked(lambda: _label(objects, getattr(objects[step[1]], step[2])))
    return found


def _asked(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except NotImplementedError:
        raise
    except ERRORS as error:
        return _failed(error)


def _pairs(objects: dict[str, Any], pairs: Iterable[tuple[Any, Any]]) -> list[list[Any]]:
    return [[str(name)[:LONGEST], _label(objects, one)] for name, one in islice(pairs, MOST)]


def _state(given: Framework, objects: dict[str, Any], module: Any) -> list[list[Any]]:
    state = dict(given.state(module))
    return [
        [str(name)[:LONGEST], _label(objects, one), given.numbers(one)] for name, one in islice(state.items(), MOST)
    ]


def _flag(module: Any) -> bool | None:
    found = getattr(module, "training", None)
    return found if isinstance(found, bool) else None


def _value(objects: dict[str, Any], given: Any) -> Any:
    return objects[given] if isinstance(given, str) else given


def _label(objects: dict[str, Any], found: Any) -> Any:
    """The label of what a program speaks of; numbers and `None` as they are."""
    for label, one in objects.items():
        if one is found:
            return label
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    return f"another {type(found).__name__}"


def _numbers(found: Any) -> list[int] | None:
    values = getattr(found, "values", None)
    if not isinstance(values, (list, tuple)) or not all(type(one) is int for one in values[:MOST]):
        return None
    return list(values[:MOST])


def _overwrite(tensor: Any, number: int) -> None:
    tensor.values[:] = [number] * len(tensor.values)


def learners(module: Any, parameter: Any, tensor: Any) -> Framework:
    """A framework of the learner's."""
    return Framework(module, parameter, tensor, _numbers, lambda one: one.state_dict(), _overwrite)


def probe(case: Case, module: Any, parameter: Any, tensor: Any) -> Evidence:
    """Run each program on modules of the learner's."""
    with torch_calls() as called:
        runs = [run(steps, learners(module, parameter, tensor)) for steps in case.parameters["programs"]]
        inside = [*module.__mro__, *map(type, vars(module()).values())]
    built_on = [one.__name__ for one in inside if one.__module__.split(".")[0] == "torch"]
    return Evidence({"runs": runs, "torch_calls": [*built_on, *called][:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each step, and what the tree looks like after it."""
    lines = [f"{case.name}: what your modules say"]
    for steps, found in zip(case.parameters["programs"], evidence.values["runs"], strict=True):
        lines += [f"  {in_words(step):52} {told(seen)}" for step, seen in zip(steps, found, strict=True)]
        lines += [f"    at the end, {part}: {shown(found[-1][part])}" for part in PARTS[:5]]
    return ["\n".join(lines)]


def in_words(step: Step) -> str:
    """A step as one would write it."""
    kind, *rest = step
    if kind == "early":
        return f"self.early = {rest[0]} before super().__init__()"
    label, *rest = rest
    if kind == "set":
        return f"{label}.{rest[0]} = {rest[1]}"
    if kind == "del":
        return f"del {label}.{rest[0]}"
    if kind == "buffer":
        return f"{label}.register_buffer({rest[0]!r}, {rest[1]}{'' if rest[2] else ', persistent=False'})"
    if kind == "parameter":
        return f"{label}.register_parameter({rest[0]!r}, {rest[1]})"
    if kind == "load":
        return f"{label}.load_state_dict({rest[0]}{'' if rest[1] else ', strict=False'})"
    return f"{label}.{kind}({', '.join(map(str, rest))})"


def told(seen: dict[str, Any]) -> str:
    """The outcome of a step in words."""
    if "error" in seen:
        return f"{seen['error']}: {seen['says']}"
    return "" if seen["value"] is None else f"gives {seen['value']}"


def shown(found: Any) -> str:
    """Names with what they stand for, in words."""
    if isinstance(found, dict):
        return f"{found['error']}: {found['says']}"
    return ", ".join(f"{name or repr(name)} is {' '.join(map(str, rest))}" for name, *rest in found) or "nothing"
