"""What each operation does: asked of PyTorch, which runs the same program on a tensor of its own."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.explaining import compared
from autograder.exercises.u2.reading import OTHER_ERROR, OTHER_ERROR_TOLD, refusal
from autograder.exercises.u2.strided_tensor.visible import MOST_ELEMENTS, Operation, program

MISCONCEPTIONS = {
    "asked PyTorch": "Your class asks PyTorch. Compute the three sets of numbers yourself: that is the whole of a "
    "view.",
    "no tensor": "This operation must return a new `Strided`.",
    "the same tensor": (
        "Each operation must return a new `Strided`, also where no number changes: yours returned the tensor that it "
        "was called on."
    ),
    OTHER_ERROR: OTHER_ERROR_TOLD,
    "not whole numbers": (
        "`sizes` and `strides` are tuples of whole numbers, `offset` is one, and `is_contiguous()` is `True` or "
        "`False`."
    ),
    "changed in place": (
        "Your operation changed the tensor that it was called on. Somebody may still use that one: put the new "
        "numbers into a new `Strided`, and copy a list of sizes before you change it."
    ),
    "copied": (
        "Your result has a list of its own. A view is new numbers over the *same* list: hand `self.data` on as it is."
    ),
    "negative step accepted": (
        "A step below 1 must be refused: it would need a stride below zero (or none at all), and PyTorch has none such."
    ),
    "expanded what is not 1": (
        "Only a dimension of size 1 can be repeated, and only a new dimension in front can be added: with a stride of "
        "0 every index reads the same place. A longer dimension would have to read places that do not belong to it."
    ),
    "fewer sizes": (
        "There are fewer sizes than dimensions. New dimensions can be added in front, and none can be left out."
    ),
    "no size": (
        "No size is below 0. Only -1 has a meaning, and only for a dimension that is there: leave it as it is."
    ),
    "too many or too few indices": (
        "`element` needs one index for each dimension: one that is missing, or left over, must be refused."
    ),
    "out of range accepted": (
        "An index or a dimension that is out of range went through, and read something that is not there."
    ),
    "negative numbers refused": "Negative dimensions and indices count from the end, as in Python: -1 is the last.",
    "bounds not clamped": (
        "A slice never fails because of its bounds: start and stop beyond an end are moved to it, and where nothing "
        "is left the size is 0. A stop of 100 takes no more than one of the size, a start of -100 no less than 0."
    ),
    "refused": "You refused what PyTorch does.",
    "0 taken for None": (
        "A bound of 0 is a bound like any other. `stop or size` takes it for one that was not given: ask whether it "
        "is `None`."
    ),
    "size below 0": (
        "A slice that begins at its stop, or behind it, has no elements: its size is 0, and never less. "
        "`len(range(start, stop, step))` knows that."
    ),
    "one too many or too few": (
        "The size after a slice is the number of steps that fit, rounded up: of 5 indices, a step of 2 takes 3."
    ),
    "counted with floats": (
        "The size after your slice is right for small sizes, and off for enormous ones: `/` makes a float, which holds "
        "53 bits. Whole numbers in Python have no limit: divide with `//`, or let `len(range(…))` count."
    ),
    "wrong sizes": "These are not the sizes of the result.",
    "step not in the stride": (
        "With a step of 2 the next index lies twice as far away: the stride is multiplied by the step."
    ),
    "expanded without stride 0": (
        "An expanded dimension must read the same place again for every index: its stride is 0."
    ),
    "strides of a copy": (
        "You computed the strides of a contiguous tensor of the new sizes. Nothing has moved in memory: a view "
        "inherits the strides of the tensor it was made from."
    ),
    "wrong strides": "These are not the strides of the result.",
    "offset forgotten": (
        "The result begins elsewhere than the tensor it was made from: going to index `start` of a dimension moves "
        "the offset by `start * stride`."
    ),
    "offset starts anew": (
        "The tensor may itself be a view that begins somewhere in the list: *add* to its offset, do not replace it."
    ),
    "wrong offset": "The result begins at another place of the list.",
    "size 1 counts": ("The stride of a dimension of size 1 is never used, so `is_contiguous` does not look at it."),
    "offset counts": "`is_contiguous` asks about sizes and strides: where the tensor begins does not matter.",
    "empty is contiguous": "A tensor without elements is contiguous, whatever its strides.",
    "wrong contiguity": (
        "`is_contiguous` asks whether the strides are those of a fresh tensor of these sizes: 1 for the last "
        "dimension, and from there the product of all faster sizes."
    ),
    "wrong element": (
        "`element` reads another place: it is the offset plus the sum of index times stride, with negative indices "
        "counted from the end first."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """What is easily forgotten, one case for each kind, then random programs."""
    no_dimension = [
        program([], ["element", []], ["expand", [3]], ["select", 0, -1], ["select", 0, 0]),
        program([2, 3], ["select", 0, 1], ["select", 0, -3], ["element", []], ["expand", []], ["expand", [2, 2]]),
    ]
    empty = [
        program([3, 0, 2], ["slice", 0, 1, 3, 1], ["transpose", 0, 2], ["select", -1, 1]),
        program([4, 3], ["slice", 0, 4, None, 1], ["slice", 1, 2, 1, 2], ["expand", [2, 0, 0]], ["select", 1, 0]),
        program([3, 4], ["expand", [0, 3, 4]], ["select", 1, -1]),
        program([1, 3], ["expand", [0, 3]], ["expand", [-1, 3]], ["element", [0, 0]], ["expand", [2, 3]]),
    ]
    ones = [
        program([3, 1, 2], ["transpose", 1, 2], ["transpose", 0, 1], ["expand", [3, 2, 5]], strides=[2, 77, 1]),
        program([5, 4], ["slice", 0, 2, 3, 1], ["slice", 1, 3, None, 1], ["expand", [4, 2, 3]]),
        program([1, 1], ["expand", [-1, 7]], ["expand", [-1, -1, 7]], ["expand", [2, -1, 7]], strides=[9, 9], offset=4),
    ]
    offsets = [
        program(
            [3, 4], ["slice", 0, 1, None, 1], ["select", 1, -2], ["slice", 0, -1, None, 1], strides=[6, 1], offset=11
        ),
        program(
            [2, 2, 3], ["select", -1, 2], ["transpose", 0, -1], ["element", [-1, -2]], strides=[1, 12, 3], offset=5
        ),
    ]
    indices = [
        program([3, 4], ["element", [1, 2, 0]], ["element", [1, 2, 3, 4]], ["element", [2]], ["element", []]),
        program([], ["element", [0]], ["element", []]),
        program([1, 1], ["element", [0, 0, 0]], ["element", [0]], ["element", [0, 0]]),
    ]
    nothing_changes = [
        program([3, 4], ["slice", 0, None, None, 1], ["slice", 1, 0, 4, 1], ["transpose", 1, 1], ["expand", [3, 4]]),
        program([], ["expand", []]),
    ]
    no_such_dimension = [
        program([3, 4], *(["transpose", *dims] for dims in ([2, 0], [0, 2], [-3, 0], [0, -3]))),
        program([3, 4], ["slice", 2, None, None, 1], ["slice", -3, None, None, 1], ["transpose", 2, 2]),
        program([3, 4], ["select", 2, 0], ["select", -3, 0], ["select", 1, -5], ["transpose", -3, -3]),
        program([3, 1], ["expand", [-2, 4]], ["expand", [3, -2]], ["expand", [-2, 3, 1]]),
        program([], ["slice", 0, None, None, 1], ["select", 0, 0]),
    ]
    # One case for each way in which the dimensions could be laid over the sizes all the same.
    too_few_sizes = [
        program([2, 3, 4], *(["expand", sizes] for sizes in ([2, 3], [3, 4], [2], [4], []))),
        program([1, 1, 1], *(["expand", sizes] for sizes in ([1, 1], [5, 1], [1], [5], [-1], []))),
        program([5, 1], ["expand", [5]], ["expand", [1]], ["expand", [-1]], ["expand", [0]], ["expand", []]),
    ]
    # Equal numbers above 256 are not one and the same object.
    large = [
        program([2, 300], ["expand", [2, 300]], ["expand", [3, 2, 300]], ["slice", 0, 0, 1, 1], ["select", 1, 299]),
        program([300], ["expand", [2, 300]], ["transpose", 0, 1], ["expand", [300, -1]], ["slice", 0, 1, 300, 1]),
    ]
    slices = [
        program([9], ["slice", 0, -100, 100, 4], ["slice", 0, -2, -1, 1], ["slice", -1, None, None, 0]),
        program(
            [7, 5], ["slice", -1, None, -1, 3], ["slice", 0, 5, -1, 2], ["slice", 2, 0, 1, 1], ["slice", 0, 0, 1, -2]
        ),
        program([6], ["slice", 0, 1, None, 2], ["slice", 0, 1, None, 2], ["slice", 0, 1, None, 2]),
    ]
    enormous = [
        program(
            [1, 2], ["expand", [10**12, 2]], ["element", [10**11, -1]], ["slice", 0, 5, None, 7], ["transpose", 0, 1]
        ),
        program([], *_beyond_floats(random)),
        program([], ["expand", [10**6, 10**6]], ["slice", 1, -3, None, 1], ["slice", 0, 10**6 - 2, None, 1]),
    ]
    fixed = {
        "enormous": enormous,
        "no dimensions": no_dimension,
        "indices": indices,
        "nothing changes": nothing_changes,
        "no such dimension": no_such_dimension,
        "no elements": empty,
        "sizes of one": ones,
        "offsets": offsets,
        "slices": slices,
        "too few sizes": too_few_sizes,
        "large": large,
    }
    cases = [Case(name, {"programs": programs}) for name, programs in fixed.items()]
    drawn = [[random_program(random) for _ in range(8)] for _ in range(3)]
    return cases + [Case(f"random {number}", {"programs": programs}) for number, programs in enumerate(drawn)]


def _beyond_floats(random: Random) -> list[Operation]:
    """Slices of a dimension whose size needs more bits than a float holds."""
    # Between 2**59 and 2**60 a float is a multiple of 128: it is off by more than one.
    left, first = 128 * random.randint(2**52, 2**53 - 1) + 41, random.randint(1, 30)
    return [
        ["expand", [left + first]],
        ["slice", 0, first, None, 1],
        ["slice", 0, 1, left - random.randint(1, 9), random.choice([3, 5, 7])],
    ]


def random_program(random: Random) -> Any:
    """A tensor of up to four dimensions, also with gaps and swapped dimensions, and four to seven operations on it."""
    sizes = [random.choice([1, 2, 3, 4]) for _ in range(random.randint(1, 4))]
    strides, step = [0] * len(sizes), 1
    for dim in random.sample(range(len(sizes)), len(sizes)):
        strides[dim] = step
        step *= sizes[dim] + random.choice([0, 0, 0, 1])
    given = program(sizes, strides=strides, offset=random.choice([0, 0, 3, 8]))
    now = start(given)
    for _ in range(random.randint(4, 7)):
        operation = _draw(random, list(now.shape))
        found = apply(now, operation)
        if isinstance(found, torch.Tensor):
            if found.numel() > MOST_ELEMENTS:
                continue
            now = found
        given["operations"].append(operation)
    return given


def _draw(random: Random, sizes: list[int]) -> Operation:
    """An operation that mostly fits a tensor of these sizes."""
    rank = len(sizes)
    dim = random.randrange(-rank, rank) if rank else 0
    size = sizes[dim] if rank else 1
    kinds = ["slice", "slice", "transpose", "select", "expand", "element"] if rank else ["expand", "element"]
    kind = random.choice(kinds)
    if kind == "slice":
        start, stop = (random.choice([None, random.randint(-size - 2, size + 2)]) for _ in range(2))
        return ["slice", dim, start, stop, random.choice([1, 1, 2, 3, -1])]
    if kind == "transpose":
        return ["transpose", dim, random.randrange(-rank, rank + (random.random() < 0.1))]
    if kind == "select":
        return ["select", dim, random.randint(-size, size)]
    if kind == "element":
        return ["element", [random.randint(-one, max(one - (random.random() < 0.8), -one)) for one in sizes]]
    grown = [random.choice([2, 3, -1]) if one == 1 else random.choice([one, one, one, -1]) for one in sizes]
    if grown and random.random() < 0.2:
        grown[random.randrange(rank)] += 2
    return ["expand", [*([2] if rank < 4 and random.random() < 0.4 else []), *grown]]


def start(given: dict[str, Any]) -> torch.Tensor:
    """The tensor with which a program begins."""
    return torch.tensor(given["data"]).as_strided(given["sizes"], given["strides"], given["offset"])


def apply(now: torch.Tensor, operation: Operation) -> torch.Tensor | int | None:
    """What PyTorch makes of an operation; `None` where it refuses."""
    name, *arguments = operation
    try:
        if name == "element":
            (index,) = arguments
            if len(index) != now.dim():
                return None
            return int(now[tuple(index)].item())
        if name == "slice":
            return torch.ops.aten.slice.Tensor(now, *arguments)
        found: torch.Tensor = getattr(now, name)(*arguments)
        return found
    except (RuntimeError, IndexError):
        return None


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The misconception at the first step of each program that went otherwise than with PyTorch, once each.

    About contiguity: each answer with the mistakes that would have given it.
    """
    said: set[str] = set()
    runs = evidence.values["runs"]
    for given, states in zip(case.parameters["programs"], runs, strict=True):
        now, call = start(given), "at the start"
        before: torch.Tensor | None = None
        for operation, found in zip([None, *given["operations"]], states, strict=True):
            wanted: torch.Tensor | int | None = now
            if operation is not None:
                before, wanted = now, apply(now, operation)
                call = f"{operation[0]}({', '.join(map(str, operation[1:]))})"
                call += (
                    f" of sizes {list(before.shape)}, strides {list(before.stride())}, offset {before.storage_offset()}"
                )
            name = _difference(operation, before, wanted, found)
            if name is not None:
                if name not in said:
                    yield name, f"({call}: found {_in_words(found)}, wanted {_in_words(_as_state(wanted))})"
                said.add(name)
                break
            if isinstance(wanted, torch.Tensor):
                right = wanted.is_contiguous()
                told = compared(CONTIGUITY, found["contiguous"], right, _contiguous_if(wanted), call, wanted.dim())
                yield told
                if isinstance(told, Deviation):
                    said.add(CONTIGUITY)
                    break
            now = wanted if isinstance(wanted, torch.Tensor) else now
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _as_state(wanted: torch.Tensor | int | None) -> dict[str, Any]:
    if wanted is None:
        return {"refused": ""}
    if isinstance(wanted, int):
        return {"value": wanted}
    return {
        "sizes": list(wanted.shape),
        "strides": list(wanted.stride()),
        "offset": wanted.storage_offset(),
        "contiguous": wanted.is_contiguous(),
        "elements": wanted.flatten().tolist() if wanted.numel() <= MOST_ELEMENTS else None,
        "shares": True,
        "new": True,
    }


def _in_words(state: dict[str, Any]) -> str:
    if "refused" in state:
        return refusal(state)
    if "sizes" not in state:
        return str(next(iter(state.values())))
    names = ("sizes", "strides", "offset", "contiguous")
    return ", ".join(f"{name} {state[name]}" for name in names)


def _difference(
    operation: Operation | None, before: torch.Tensor | None, wanted: torch.Tensor | int | None, found: dict[str, Any]
) -> str | None:
    """What is wrong with a state, in the order in which it would be looked for; `None` if nothing is."""
    kind = operation[0] if operation else "start"
    if "changed" in found:
        return "changed in place"
    if wanted is None:
        if "refused" in found:
            return OTHER_ERROR if "kind" in found else None
        return _accepted(kind, operation, before)
    if "refused" in found:
        return _refused(kind, operation)
    right = _as_state(wanted)
    if "value" in right or "value" in found:
        return None if found == right else "wrong element"
    if "kind" in found:
        return "no tensor"
    assert isinstance(wanted, torch.Tensor)
    if None in (found["sizes"], found["strides"], found["offset"], found["contiguous"]):
        return "not whole numbers"
    if found["shares"] is not True:
        return "copied"
    if found["new"] is not True:
        return "the same tensor"
    if found["sizes"] != right["sizes"]:
        return _why_this_size(operation, before, found["sizes"]) if kind == "slice" else "wrong sizes"
    if len(found["strides"]) != wanted.dim():
        return "wrong strides"
    if wanted.numel():
        used = [dim for dim, size in enumerate(wanted.shape) if size > 1]
        if any(found["strides"][dim] != right["strides"][dim] for dim in used):
            return _why_these_strides(operation, wanted, found["strides"], used)
        if found["offset"] != right["offset"]:
            return _why_this_offset(before, right["offset"], found["offset"])
    return None if found["elements"] == right["elements"] else "wrong element"


CONTIGUITY = "wrong contiguity"


def _contiguous_if(tensor: torch.Tensor) -> dict[str, list[bool]]:
    """What `is_contiguous` would say under each mistake."""
    sizes, strides = list(tensor.shape), list(tensor.stride())

    def fresh(ones: bool) -> bool:
        expected, found = 1, True
        for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
            found = found and (stride == expected or (size == 1 and not ones))
            expected *= size
        return found

    right, empty = tensor.is_contiguous(), not tensor.numel()
    return {
        "size 1 counts": [empty or fresh(ones=True)],
        "empty is contiguous": [fresh(ones=False)],
        "offset counts": [right and not tensor.storage_offset()],
    }


def _accepted(kind: str, operation: Operation | None, before: torch.Tensor | None) -> str:
    if kind == "element" and operation is not None and before is not None and len(operation[1]) != before.dim():
        return "too many or too few indices"
    if kind == "slice" and operation is not None and operation[-1] < 1:
        return "negative step accepted"
    if kind == "expand" and operation is not None and before is not None:
        added = len(operation[1]) - before.dim()
        if added < 0:
            return "fewer sizes"
        if any(size < -(number >= added) for number, size in enumerate(operation[1])):
            return "no size"
    return "expanded what is not 1" if kind == "expand" else "out of range accepted"


def _refused(kind: str, operation: Operation | None) -> str:
    arguments = operation[1:] if operation else []
    numbers = arguments[0] if kind == "element" else arguments[:1] if kind == "slice" else arguments
    if kind != "expand" and any(number < 0 for number in numbers):
        return "negative numbers refused"
    return "bounds not clamped" if kind == "slice" else "refused"


def _why_this_size(operation: Operation | None, before: torch.Tensor | None, found: list[int]) -> str:
    """A size is told to be rounded otherwise only where no bound had to be moved."""
    assert operation is not None
    assert before is not None
    _, dim, *bounds, _ = operation
    size, (start, stop), step = before.shape[dim], bounds, operation[-1]
    if size > 2**53 and len(found) == before.dim() and abs(found[dim] - len(range(size)[start:stop:step])) > 1:
        return "counted with floats"
    if stop == 0 and size and len(found) == before.dim() and found[dim] == len(range(size)[start::step]):
        return "0 taken for None"
    if len(found) == before.dim() and found[dim] < 0:
        return "size below 0"
    outside = any(bound is not None and not -size <= bound <= size for bound in bounds)
    return "bounds not clamped" if outside else "one too many or too few"


def _why_these_strides(operation: Operation | None, wanted: torch.Tensor, found: list[int], used: list[int]) -> str:
    if operation and operation[0] == "expand" and any(not wanted.stride(dim) and found[dim] for dim in used):
        return "expanded without stride 0"
    fresh = torch.empty(wanted.shape, device="meta").stride()
    if all(found[dim] == fresh[dim] for dim in used):
        return "strides of a copy"
    if operation and operation[0] == "slice" and operation[-1] > 1:
        return "step not in the stride"
    return "wrong strides"


def _why_this_offset(before: torch.Tensor | None, wanted: int, found: int) -> str:
    if before is None:
        return "wrong offset"
    if before.storage_offset() and found == wanted - before.storage_offset():
        return "offset starts anew"
    return "offset forgotten" if found in (before.storage_offset(), 0) else "wrong offset"
