"""What the gate does not show of unit 2's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.u2.broadcast_strides import judge as broadcasting
from autograder.exercises.u2.common_elements import judge as common
from autograder.exercises.u2.common_elements import visible as common_visible
from autograder.exercises.u2.inside_a_tensor import judge as inside
from autograder.exercises.u2.inside_a_tensor import visible as inside_visible
from autograder.exercises.u2.memory_formats import judge as formats
from autograder.exercises.u2.reading import ask, whole_number, whole_numbers
from autograder.exercises.u2.strided_tensor import judge as strided
from autograder.exercises.u2.strided_tensor import visible as strided_visible
from autograder.exercises.u2.view_strides import judge as views


def drawn_views(count: int) -> list[tuple[list[Any], list[Any]]]:
    """Pairs of small views, many of which nearly meet."""
    random = Random(7)

    def view() -> list[Any]:
        rank = random.randint(0, 3)
        sizes = [random.randint(0 if random.random() < 0.1 else 1, 5) for _ in range(rank)]
        if rank and random.random() < 0.6:
            sizes[random.randrange(rank)] = random.randint(9, 30)
        return [sizes, [random.choice([0, 1, 2, 3, 4, 6, 7, 12, 20]) for _ in range(rank)], random.randint(0, 30)]

    return [(view(), view()) for _ in range(count)]


def places(view: list[Any]) -> list[int]:
    """Every position that a view reaches, once for each index."""
    sizes, strides, offset = view
    indices = product(*(range(size) for size in sizes))
    return [offset + sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in indices]


def test_views_meet_where_their_positions_written_out_meet() -> None:
    met, twice = 0, 0
    for first, second in drawn_views(1500):
        shared = set(places(first)) & set(places(second))
        found = common.where_they_meet(first, second)
        assert (found in shared) if shared else found is None, (first, second)
        reached = places(first)
        repeated = {place for place in reached if reached.count(place) > 1}
        found = common.where_twice(first)
        assert (found in repeated) if repeated else found is None, first
        for place in range(0, 200, 7):
            assert common.ways(first, place) == reached.count(place)
        met, twice = met + bool(shared), twice + bool(repeated)
    assert 300 < met < 1200
    assert 200 < twice < 1300


def test_long_views_meet_where_numpy_says_so() -> None:
    """`numpy.shares_memory` solves the same problem exactly, by another algorithm, and never looks at the memory."""
    random = Random(11)
    memory = np.zeros(1, dtype=np.int8)
    met = 0
    for _ in range(60):
        pair = common._random_pair(random)
        first, second = (
            # Far beyond the array: addresses only, never read.
            as_strided(np.ndarray((1,), np.int8, memory, 0), sizes, strides)
            for sizes, strides, _ in pair
        )
        apart = pair[1][2] - pair[0][2]
        expected = _shares(first, second, apart)
        assert (common.where_they_meet(*pair) is not None) == expected, pair
        met += expected
    assert 10 < met < 50


def _shares(first: Any, second: Any, apart: int) -> bool:
    """Whether two arrays would meet if the second began `apart` bytes after the first."""
    # A further dimension of two indices, `apart` bytes from one another: only the one that is moved is taken.
    interface = dict(second.__array_interface__)
    address = first.__array_interface__["data"][0]
    interface["data"] = (address + apart, False)
    moved = np.asarray(type("At", (), {"__array_interface__": interface})())
    return bool(np.shares_memory(first, moved, max_work=-1))


def test_the_suggested_format_is_what_an_operator_takes() -> None:
    """Upsampling gives its output the format that it reads from its input; twice as large, no format is ambiguous."""
    random = Random(3)
    tensors = [formats._random(random) for _ in range(600)]
    tensors += [tensor for case in formats.hidden_cases(random) for tensor in case.parameters["tensors"]]
    told = {"contiguous": 0, "channels_last": 0}
    for sizes, strides in tensors:
        if 0 in sizes:
            continue
        found = formats.suggested(sizes, strides)
        told[found] += 1
        larger = functional.interpolate(torch.empty_strided(sizes, strides).fill_(0), scale_factor=2)
        wanted = torch.contiguous_format if found == "contiguous" else formats.LAST[len(sizes)]
        assert larger.stride() == torch.empty(larger.shape, device="meta", memory_format=wanted).stride()
    assert min(told.values()) > 100


def test_hidden_cases_hold_both_answers_of_every_kind() -> None:
    for seed in range(5):
        random = Random(seed)
        requests = [one for case in views.hidden_cases(random) for one in case.parameters["requests"]]
        refused = sum(views.by_pytorch(request) is None for request in requests)
        assert 5 <= refused <= len(requests) - 20
        questions = [one for case in broadcasting.hidden_cases(random) for one in case.parameters["questions"]]
        assert 6 <= sum(broadcasting.misfit(one) is not None for one in questions) <= len(questions) - 20
        pairs = [one for case in common.hidden_cases(random) for one in case.parameters["pairs"]]
        met = sum(common.where_they_meet(*pair) is not None for pair in pairs)
        assert 15 <= met <= len(pairs) - 15


def test_what_does_not_go_together_for_pytorch_has_a_dimension_and_the_other_way_round() -> None:
    random = Random(5)
    for _ in range(500):
        operands = broadcasting._random(random)
        assert (broadcasting.by_pytorch(operands) is None) == (broadcasting.misfit(operands) is not None)


def test_every_operation_occurs_in_random_programs_and_is_sometimes_refused() -> None:
    random = Random(1)
    done, refused = set(), set()
    for _ in range(60):
        given = strided.random_program(random)
        now = strided.start(given)
        for operation in given["operations"]:
            found = strided.apply(now, operation)
            (refused if found is None else done).add(operation[0])
            now = found if isinstance(found, torch.Tensor) else now
            assert now.numel() <= strided_visible.MOST_ELEMENTS
    assert done == {"slice", "transpose", "select", "expand", "element"}
    assert refused >= {"slice", "select", "expand", "element"}


def test_what_is_never_read_is_not_compared() -> None:
    """Strides of dimensions of size 0 and 1, and of tensors without elements, are the learner's choice."""
    given = strided_visible.program([1, 4], ["slice", 1, 2, 2, 1])
    case = Case("never read", {"programs": [given]})
    every = {"contiguous": True, "shares": True, "new": True}
    first = {"sizes": [1, 4], "strides": [99, 1], "offset": 0, "elements": given["data"][:4], **every}
    second = {"sizes": [1, 0], "strides": [5, 6], "offset": 77, "elements": [], **every}

    def told(*states: dict[str, Any]) -> list[str]:
        found = strided.judge(case, Evidence({"runs": [list(states)], "torch_calls": []}))
        return [
            one.question if isinstance(one, Deviation) else one[0] for one in found if not isinstance(one, Agreement)
        ]

    assert told(first, second) == []
    assert told(first | {"strides": [99, 2]}, second) == ["wrong strides"]
    assert told(first, second | {"contiguous": False}) == ["wrong contiguity"]


def test_a_program_of_which_steps_are_missing_does_not_pass() -> None:
    case = strided_visible.visible_cases()[0]
    with pytest.raises(ValueError, match="zip"):
        list(strided.judge(case, Evidence({"runs": [], "torch_calls": []})))
    with pytest.raises(ValueError, match="zip"):
        list(strided.judge(case, Evidence({"runs": [[] for _ in case.parameters["programs"]], "torch_calls": []})))


def test_a_position_anywhere_that_both_views_reach_is_right() -> None:
    case = Case("two combs", {"pairs": [[[[4], [6], 0], [[6], [4], 0]]], "views": []})
    for place in (0, 12):
        assert (
            list(common.judge(case, Evidence({"pairs": [{"position": place}], "views": [], "torch_calls": []}))) == []
        )
    for place, name in ((6, "not reached by both"), (24, "not reached by both"), (None, "met and not found")):
        found = common.judge(case, Evidence({"pairs": [{"position": place}], "views": [], "torch_calls": []}))
        assert [one for one, _ in found] == [name]


def test_truth_values_are_no_numbers_and_errors_are_refusals() -> None:
    assert (whole_number(True), whole_number(3), whole_number(3.0)) == (None, 3, None)
    assert (whole_numbers((1, 2)), whole_numbers([1, True]), whole_numbers("12"), whole_numbers(())) == (
        [1, 2],
        None,
        None,
        [],
    )
    assert common_visible.position(None) == {"position": None}
    assert common_visible.position(True) == {"kind": "bool"}

    def refusing(error: Exception) -> dict[str, Any]:
        raise error

    assert ask(partial(refusing, ValueError("x" * 999))) == {"refused": "x" * 200}
    assert ask(partial(refusing, IndexError("x" * 999))) == {"refused": "x" * 200, "kind": "IndexError"}
    with pytest.raises(NotImplementedError):
        ask(partial(refusing, NotImplementedError()))


def test_a_refusal_is_explained_by_what_stands_in_the_way_and_by_that_alone() -> None:
    for request, reasons in (
        ([[1], [4], []], ["no dimensions"]),
        ([[4, 6], [6, 1], [24]], []),
        ([[4, 1, 6], [6, 999, 1], [24]], ["size 1 in the way"]),
        ([[1, 6], [7, 1], [2, 3]], []),
        ([[6, 4], [0, 1], [2, 3, 4]], ["stride 0 joined or cut", "refused what is not contiguous"]),
    ):
        assert list(views._in_the_way(request)) == reasons


COUNTED = {
    "views": [(0, 1, 0), (2, 2, 0), (3, 3, 0), (0, 3, 0)],
    "other steps": [(4, 2, 0), (2, 3, 0)],
    "written": [(1, 2, 2), (0, 1, 0), (0, 2, 3), (0, 2, 3)],
    "who holds it": [(0, 2, 0), (0, 3, 0), (0, 2, 0)],
    "nothing there": [(3, 2, 0), (8, 2, 0)],
    "inference": [(0, 1, 0), (0, 1, None), (1, 2, None)],
    "no storage": [(0, None, 0)],
}
"""Offset, users and version of the visible programs, counted by hand."""


@pytest.mark.parametrize("name", inside_visible.PROGRAMS)
def test_what_python_says_is_what_a_person_counts(name: str) -> None:
    program = inside_visible.PROGRAMS[name]
    found = [(one.offset, one.users, one.version) for one in inside_visible.run(program, inside.facts)]
    assert found == COUNTED[name]
    # Asked twice at each place, Python says the same: that it asked is taken off again.
    twice = [line for line in program for _ in range(1 + line.startswith("inside("))]
    again = [(one.offset, one.users, one.version) for one in inside_visible.run(twice, inside.facts)]
    assert set(again) == set(found)


FLAWS: dict[str, Any] = {
    "offset in bytes": lambda one: (one.offset * one.itemsize, one.users, one.version),
    "offset from addresses": lambda one: (one.offset if one.elements else -(2**40), one.users, one.version),
    "reads a copy": lambda one: (one.offset, one.users, one.version) if one.contiguous else (0, 1, 0),
    "counts something else": lambda one: (one.offset, min(one.users, 2), one.version),
    "you hold it, too": lambda one: (one.offset, one.users + 1, one.version),
    "made-up version": lambda one: (one.offset, one.users, one.version or 0),
    "asks the mode": lambda one: (one.offset, one.users, None if one.inference_mode else one.version),
    "another counter": lambda one: (one.offset, one.users, None if one.version is None else 0),
}


def _read(case: Case, flaw: Any) -> Evidence:
    """What a library with a flaw would send, that refuses what has no storage."""
    told = [
        {"raised": "refused", "found": None} if one.users is None else {"raised": "", "found": list(flaw(one))}
        for one in inside_visible.run(case.kept["program"], inside.facts)
    ]
    return Evidence({"schema": inside_visible.SCHEMA, "answers": told})


@pytest.mark.parametrize("name", FLAWS)
def test_each_flaw_of_what_is_read_shows_on_hidden_cases_whatever_is_drawn(name: str) -> None:
    for seed in range(5):
        named = {
            kind
            for case in inside.hidden_cases(Random(seed))
            for kind, _ in inside.judge(case, _read(case, FLAWS[name]))
        }
        assert name in named, (seed, named)


def test_what_is_read_right_is_passed_whatever_is_drawn() -> None:
    for seed in range(20):
        for case in inside.hidden_cases(Random(seed)):
            right = _read(case, lambda one: (one.offset, one.users, one.version))
            assert list(inside.judge(case, right)) == []
            assert any(line.startswith(("inside(", "with ")) for line in case.kept["program"])


def test_the_learners_side_never_learns_which_program_is_run() -> None:
    for case in inside.hidden_cases(Random(1)):
        assert set(case.parameters) == {"number"}
        assert case.tensors == {}


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ({"schema": None, "answers": []}, "not there"),
        ({"schema": "u2::inside(Tensor x) -> int", "answers": []}, "another schema"),
        ({"schema": inside_visible.SCHEMA, "answers": [{"raised": "RuntimeError: no", "found": None}] * 4}, "refused"),
    ],
)
def test_a_library_that_says_nothing_of_a_tensor_is_told_why(seen: dict[str, Any], name: str) -> None:
    case = inside_visible.visible_cases()[0]
    assert [kind for kind, _ in inside.judge(case, Evidence(seen))] == [name]
