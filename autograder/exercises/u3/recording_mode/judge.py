"""What reaches the key Python: written down by a mode of the judge's own, while it runs the same programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u3.recording_mode.visible import ENDS, LONGEST, MOST_KEYS, MOST_RECORDS, Program, program, run

MISCONCEPTIONS = {
    "no records": "A recorder must have a list `records`.",
    "not a pair": (
        "Each record is a pair: the operator's name as text, and a list with the key set of each tensor, as text."
    ),
    "results changed": (
        "With the mode the program computes something else than without it. Call the operator with *all* its "
        "arguments, and return what it returns."
    ),
    "forgotten with the error": (
        "An error left the block, and what was written down before it is gone. That is when you want to read it: keep "
        "the list."
    ),
    "above the dispatcher": (
        "Your mode meets the functions of Python, before the dispatcher: `linear` arrives whole, and a backward pass "
        "not at all. Use `TorchDispatchMode` and `__torch_dispatch__`."
    ),
    "overload missing": (
        "The name lacks its overload. `str(operator)` has it: aten.add.Tensor and aten.add.Scalar are two operators."
    ),
    "namespace assumed": (
        "Not every operator is one of aten: libraries, the course's among them, have namespaces of their own. "
        "`str(operator)` says which."
    ),
    "lists forgotten": (
        "Tensors may come inside a list, as for `cat`. Flatten the arguments: `torch.utils._pytree.tree_leaves` does "
        "it."
    ),
    "keyword arguments forgotten": "Tensors may come as keyword arguments, too, such as `out=`.",
    "lists among keyword arguments forgotten": (
        "A keyword argument may be a list of tensors, too, as in `out=[first, second]`. Flatten all the arguments at "
        "once: `tree_leaves((args, kwargs))`."
    ),
    "one keyword only": (
        "You look for tensors under `out` alone. Keyword arguments have other names as well, such as `weight` or "
        "`values`: take the tensors of all of them."
    ),
    "keyword arguments first": "The tensors come in the order of the arguments: keyword arguments are the last.",
    "parameters left out": (
        "A parameter is a tensor, too, though its type is another one: ask `isinstance(value, torch.Tensor)`."
    ),
    "keys of results": "You wrote down the keys of the result. Write down those of the tensors that go in.",
    "first tensor only": "An operator has a key set for *each* tensor among its arguments.",
    "calls without tensors left out": (
        "Operators without a tensor among their arguments, such as `zeros`, reach the mode as well: write them down "
        "with an empty list."
    ),
    "failures left out": (
        "An operator that raised is missing. When you look for a fault it is the one that you want to see: write down "
        "first, call afterwards."
    ),
    "once each": "The same operator with the same keys may come often. Write it down every time.",
    "shared between recorders": "Each recorder has a list of its own: make it in `__init__`, not in the class.",
    "started anew": "A recorder that is entered again must go on with its list.",
    "other records": "Other operators or other keys reach the mode in PyTorch.",
}


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[list[Any]] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
        self.records.append([str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]])
        return operator(*args, **(kwargs or {}))


def _flawed(keys: Callable[[Any, Any, Any], list[Any]], name: Callable[[Any], str] = str) -> type[TorchDispatchMode]:
    """A recorder that writes down the keys of other tensors, or other names."""

    class Flawed(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.records: list[list[Any]] = []

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            record: list[Any] = [name(operator), []]
            self.records.append(record)
            found = operator(*args, **(kwargs or {}))
            record[1] = [str(torch._C._dispatch_keys(one)) for one in keys(args, kwargs or {}, found)]
            return found

    return Flawed


def _above_lists(arguments: Iterable[Any]) -> list[torch.Tensor]:
    return [one for one in arguments if isinstance(one, torch.Tensor)]


def _tensors(*arguments: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(arguments) if isinstance(one, torch.Tensor)]


class _Above(TorchFunctionMode):
    """Meets functions, not operators."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[list[Any]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keys = [str(torch._C._dispatch_keys(one)) for one in _tensors(args, kwargs or {})]
        self.records.append([getattr(function, "__name__", str(function)), keys])
        return function(*args, **(kwargs or {}))


FLAWED: dict[str, type[Any]] = {
    "overload missing": _flawed(
        lambda args, kwargs, found: _tensors(args, kwargs), lambda one: str(one.overloadpacket)
    ),
    "namespace assumed": _flawed(
        lambda args, kwargs, found: _tensors(args, kwargs), lambda one: f"aten.{str(one).partition('.')[2]}"
    ),
    "keyword arguments forgotten": _flawed(lambda args, kwargs, found: _tensors(args)),
    "lists forgotten": _flawed(lambda args, kwargs, found: _above_lists([*args, *kwargs.values()])),
    "lists among keyword arguments forgotten": _flawed(
        lambda args, kwargs, found: [*_tensors(args), *_above_lists(kwargs.values())]
    ),
    "one keyword only": _flawed(lambda args, kwargs, found: _tensors(args, kwargs.get("out"))),
    "keyword arguments first": _flawed(lambda args, kwargs, found: _tensors(kwargs, args)),
    "parameters left out": _flawed(
        lambda args, kwargs, found: [one for one in _tensors(args, kwargs) if type(one) is torch.Tensor]
    ),
    "first tensor only": _flawed(lambda args, kwargs, found: _tensors(args, kwargs)[:1]),
    "keys of results": _flawed(lambda args, kwargs, found: _tensors(found)),
}


def hidden_cases(random: Random) -> list[Case]:
    """One case for each thing that is easily forgotten, then random programs."""
    fixed: dict[str, list[Program]] = {
        "keyword arguments": [program("plain plain", ["out", 0, 1]), program("inference inference", ["out", 0, 1])],
        # The steps before it tell who looks into no list, or at no keyword, from who looks into no list at a keyword.
        "lists among keyword arguments": [
            program("plain grad", ["cat", 0, 1], ["out", 0, 1], ["out as a list", 0]),
            program("inference plain", ["out", 0, 1], ["stack", 0, 1], ["out as a list", 0]),
        ],
        "keyword arguments of other names": [
            program("plain plain", ["out", 0, 1], ["out by other names", 0], ["weighted", 0, 1]),
            program("plain inference", ["weighted", 0, 1], ["out by other names", 1]),
        ],
        "parameters": [program("parameter plain", ["linear", 1, 0], ["cat", 0, 1], ["add", 0, 0])],
        "lists": [program("plain grad rows", ["stack", 0, 1, 1], ["pick", 0, 2], ["cat", 1])],
        "no tensors": [program("plain", ["zeros"], ["add", 0, 1], ["zeros"])],
        "other tensors": [
            program("meta inference sparse plain", ["relu", 0], ["add", 1, 3], ["relu", 2], ["add", 0, 0], ["like", 1])
        ],
        "an operator that fails": [program("plain plain", ["add", 0, 1], ["does not fit", 0, 1], ["relu", 0])],
        "an error that ends the block": [
            program("plain plain", ["add", 0, 1], [ENDS, 0, 1], ["relu", 0]),
            program("plain plain", ["relu", 0], [ENDS, 0, 1], nested=2, times=2),
        ],
        "again and again": [program("plain plain", ["add", 0, 1], ["add", 0, 1], ["add", 2, 3])],
        "recorders in recorders": [program("grad plain", ["linear", 0, 1], ["backward", 2], nested=2)],
        "entered again": [program("plain", ["relu", 0], ["relu", 0], ["view", 1], times=2)],
        "in place": [program("plain plain", ["add_", 0, 1], ["where", 0, 2], ["through a view", 0])],
        "another namespace": [program("plain", ["packed", 0], ["relu", 0])],
        "composite": [program("grad plain", ["layer_norm", 0], ["linear", 2, 1], ["dropout", 3], ["backward", 4])],
    }
    cases = [Case(name, {"programs": programs}) for name, programs in fixed.items()]
    drawn = [[random_program(random) for _ in range(4)] for _ in range(2)]
    return cases + [Case(f"random {number}", {"programs": programs}) for number, programs in enumerate(drawn)]


def random_program(random: Random) -> Program:
    """Three to seven steps on tensors of two rows and three columns."""
    kinds = [random.choice(["plain", "plain", "grad", "inference"]) for _ in range(3)]
    fitting = list(range(3))
    steps: list[list[Any]] = []
    for _ in range(random.randint(3, 7)):
        name = random.choice(["add", "relu", "cat", "where", "zeros", "add_", "out", "dropout", "layer_norm", "like"])
        indices = [random.choice(fitting) for _ in range({"zeros": 0, "cat": 3}.get(name, 2))]
        if name in ("relu", "dropout", "layer_norm", "like"):
            indices = indices[:1]
        if name != "cat":
            fitting.append(3 + len(steps))
        steps.append([name, *indices])
    return program(" ".join(kinds), *steps, nested=random.choice([1, 1, 2]), times=random.choice([1, 1, 2]))


def cut(records: list[list[Any]]) -> list[list[Any]]:
    """Records as a probe hands them over."""
    return [[name[:LONGEST], [one[:LONGEST] for one in keys[:MOST_KEYS]]] for name, keys in records[:MOST_RECORDS]]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first program that was recorded otherwise."""
    for given, found in zip(case.parameters["programs"], evidence.values["runs"], strict=True):
        wanted = run(given, Recorder, lambda one: cut(one.records))
        name = _difference(given, found, wanted)
        if name is not None:
            yield name, _first_difference(found["records"], wanted["records"])
            return


def _difference(given: Program, found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    if any(records is None for records in found["records"]):
        return "no records"
    if any(one is None for records in found["records"] for one in records):
        return "not a pair"
    if found["values"] != wanted["values"]:
        return "results changed"
    if found["records"] == wanted["records"]:
        return None
    if all(
        len(one) > len(right) and one[-len(right) :] == right
        for one, right in zip(found["records"], wanted["records"], strict=True)
    ):
        return "shared between recorders"
    if any(name == ENDS for name, *_ in given["steps"]) and not any(found["records"]):
        return "forgotten with the error"
    above = run(given, _Above, lambda one: one.records)["records"][0]
    if any(one in above for one in found["records"][0]):
        return "above the dispatcher"
    for name, flawed in FLAWED.items():
        if run(given, flawed, lambda one: cut(one.records))["records"] == found["records"]:
            return name
    return next(
        (name for name, simpler in _simpler(given, wanted["records"]) if simpler == found["records"]), "other records"
    )


def _simpler(given: Program, wanted: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Records of which something is missing."""
    yield "calls without tensors left out", [[one for one in records if one[1]] for records in wanted]
    yield "failures left out", [[one for one in records if one[0] != "aten.mm.default"] for records in wanted]
    if given["times"] > 1:
        yield "started anew", [records[len(records) - len(records) // given["times"] :] for records in wanted]
    yield (
        "once each",
        [[one for number, one in enumerate(records) if one not in records[:number]] for records in wanted],
    )
    if given["nested"] > 1:
        # The inner recorder writes first.
        together = [one for records in zip(*reversed(wanted), strict=True) for one in records]
        yield "shared between recorders", [together for _ in wanted]


def _first_difference(found: list[Any], wanted: list[Any]) -> str:
    for records, right in zip(found, wanted, strict=True):
        for number, one in enumerate(right):
            if records is None or number >= len(records):
                return f"(nothing, where {_in_words(one)} was wanted)"
            if records[number] != one:
                return f"(found {_in_words(records[number])}, wanted {_in_words(one)})"
        if len(records) > len(right):
            return f"(found {_in_words(records[len(right)])} after all that was wanted)"
    return "(the records are right)"


def _in_words(record: Any) -> str:
    return f"{record[0]} with {'; '.join(record[1]) or 'no tensor'}" if record else "no pair"
