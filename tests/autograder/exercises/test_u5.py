"""What the gate does not show of unit 5's judges: that they are right themselves, by other means, and their doubts."""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import Any

import pytest
import torch

from autograder.course.tasks import all_tasks
from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5 import native
from autograder.exercises.u5.gaussian import judge as gaussian
from autograder.exercises.u5.longest_run import judge as longest
from autograder.exercises.u5.longest_run import visible as longest_visible
from autograder.exercises.u5.silu_dropout import judge as dropout
from autograder.exercises.u5.soft_clip import judge as clipping
from autograder.exercises.u5.soft_clip import visible as clipping_visible
from autograder.exercises.u5.stable_decay import judge as decaying
from autograder.learner_side.libraries import first_line

SEEDS = range(3)


@pytest.mark.parametrize("how", native.LAYOUTS)
def test_a_layout_changes_strides_and_not_values(how: str) -> None:
    shape = [2, 3, 4, 5]
    plain = native.make(native.tensor(*shape, seed=1))
    found = native.make(native.tensor(*shape, seed=1, how=how))
    assert torch.equal(found, plain[:1].expand(shape) if how == "repeated" else plain)
    assert how == "plain" or found.stride() != plain.stride()
    # What a loop over addresses reads is something else.
    if how not in ("plain", "repeated"):
        start = found.storage_offset()
        through = torch.as_strided(found, (found.numel(),), (1,), start) if how != "inside" else found[0].flatten()
        assert how == "inside" or not torch.equal(through, plain.flatten())


def test_what_is_told_is_short_and_names_no_place_of_this_machine() -> None:
    place = '"/a/b/include/ATen/Loops.h":357, please report a bug to PyTorch. '
    assert (
        first_line(f"RuntimeError: !same INTERNAL ASSERT FAILED at {place}")
        == "RuntimeError: !same fails in ATen/Loops.h, line 357"
    )
    assert first_line("BackendCompilerFailed: raised:\nRuntimeError: 3, not 2\n\nmore") == (
        "BackendCompilerFailed: raised: RuntimeError: 3, not 2"
    )
    assert first_line("one\ntwo") == "one"
    assert first_line("") == ""
    assert native.in_figures(torch.tensor([[1 / 3, -2.0]])) == "[[0.333333, -2]]"
    assert native.in_figures(torch.tensor([1 / 3, 1, 2], dtype=torch.float64), 1) == "[0.333333333333]"
    assert native.in_words(native.tensor(2, 3, seed=0, how="inside")) == "2 × 3 float32, inside"
    assert native.in_words(native.tensor(seed=0)) == "a number float32"
    assert native.in_words(native.tensor(2, 3, seed=0, device="meta")) == "2 × 3 float32, on meta"


def test_the_longest_run_is_the_largest_group() -> None:
    random = Random(0)
    for _ in range(50):
        row = [random.choice([-1.0, 0.0, 1.0, float("nan")]) for _ in range(random.randint(0, 12))]
        groups = [len(list(group)) for above, group in groupby(row, key=lambda one: one > 0) if above]
        assert longest.runs(torch.tensor([row]).reshape(1, -1), 0.0) == [max(groups, default=0)]


def _evidence(case: Case, flaw: Any) -> Evidence:
    """What a library with a flaw would send, that refuses what is to be refused."""
    calls, tensors = [], {}
    for number, one in enumerate(case.kept["calls"]):
        x = native.make(one["tensor"])
        refused = x.dim() != 2 or x.dtype not in native.FLOATS or x.is_meta
        calls.append({"raised": "refused" if refused else "", "written": False})
        if not refused:
            tensors[str(number)] = torch.tensor(flaw(x, one["limit"] or 0.0), dtype=torch.int64)
    return Evidence({"schema": longest_visible.SCHEMA, "calls": calls, "for the CPU": True}, tensors)


@pytest.mark.parametrize("name", longest.FLAWS)
def test_each_flaw_of_a_run_shows_on_hidden_cases_whatever_is_drawn(name: str) -> None:
    for seed in SEEDS:
        found = [
            kind
            for case in longest.hidden_cases(Random(seed))
            if case.name != "very long"  # millions of elements, in which no flaw but one can show
            for kind, _ in longest.judge(case, _evidence(case, longest.FLAWS[name]))
        ]
        assert found, (name, seed)
        assert name in found
    right = [
        kind
        for case in longest.hidden_cases(Random(0))
        for kind, _ in longest.judge(case, _evidence(case, longest.runs))
    ]
    assert right == []


@pytest.mark.parametrize("name", decaying.FLAWS)
def test_each_flaw_of_a_decay_changes_some_hidden_case_whatever_is_drawn(name: str) -> None:
    for seed in SEEDS:
        changed = False
        for case in decaying.hidden_cases(Random(seed)):
            for one in case.kept["calls"]:
                x = native.make(one["tensor"])
                if x.is_floating_point() and x.dim() == 2:
                    changed |= not torch.allclose(decaying.FLAWS[name](x, one["rate"]), decaying.decay(x, one["rate"]))
        assert changed, (name, seed)


def test_a_decay_is_a_sum_of_powers() -> None:
    x = torch.rand(3, 6, dtype=torch.float64)
    powers = torch.tensor(
        [[0.7 ** (t - s) if t >= s else 0.0 for t in range(6)] for s in range(6)], dtype=torch.float64
    )
    torch.testing.assert_close(decaying.decay(x, 0.7), x @ powers)


def test_names_of_cplusplus_are_told_from_c() -> None:
    for name in ("_ZN3c106detail14torchCheckFailE", "_ZNK2at6Tensor3dimEv", "_ZN5torch7Library4_defEv"):
        assert decaying.UNSTABLE.match(name), name
    for name in (
        "aoti_torch_get_dim",
        "_ZNSt13runtime_errorC1EPKc",
        "_ZNSt3mapI4cat2E",
        "torch_library_impl",
        "malloc",
    ):
        assert not decaying.UNSTABLE.match(name), name


def test_headers_of_the_stable_abi_are_told_from_others() -> None:
    source = """
#include <cmath>
#include "torch/headeronly/core/ScalarType.h"
 #  include <torch/csrc/stable/library.h>
// #include <torch/library.h>
/* An earlier attempt:
#include <ATen/ATen.h>
*/
#include "tool/ATen/own.h"
"""
    assert decaying.unstable_headers(source) == []
    found = decaying.unstable_headers(
        source + " #include  <torch/csrc/inductor/aoti_torch/c/shim.h>\n#include<c10/a.h>"
    )
    assert found == ["torch/csrc/inductor/aoti_torch/c/shim.h", "c10/a.h"]


def test_p_next_to_one_shows_whether_it_was_rounded() -> None:
    for steps in (1, 60, 600, 900):
        p = dropout.next_to_one(steps)
        assert 0 < p < 1
        assert abs(dropout._scale(p, rounded=True) / dropout._scale(p) - 1) > 5e-4


def test_the_gaussian_is_that_of_the_distance() -> None:
    x, y = torch.rand(4, 3, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    torch.testing.assert_close(gaussian.gaussian(x, y, 0.8), torch.exp(-(torch.cdist(x, y) ** 2) / (2 * 0.8**2)))


def test_soft_clipping_promotes_as_division_does() -> None:
    for seed in SEEDS:
        for case in clipping.hidden_cases(Random(seed)):
            for one in case.kept["calls"]:
                x, limit, _ = clipping_visible.placed(one)
                if case.name == "shapes that do not fit":
                    with pytest.raises(RuntimeError):
                        torch.div(x, limit)
                    continue
                found = clipping.soft_clip(x, limit)
                assert found.dtype == (x / limit).dtype
                assert found.shape == (x / limit).shape


def test_a_formula_of_vectors_that_differs_is_told_from_a_wrong_one() -> None:
    x, limit = torch.tensor([-1.0] * 20), torch.full((20,), 3.0)
    wanted, unsigned = clipping.soft_clip(x, limit), x * limit / (limit + x)
    mixed = torch.cat([unsigned[:16], wanted[16:]])
    assert clipping._named(x, limit, mixed, wanted) == "two formulas"
    assert clipping._named(x, limit, unsigned, wanted) == "sign forgotten"
    assert clipping._named(x, limit, wanted + 1, wanted) == "another result"


def _drawn(p: float, seed: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    x = native.tensor(48, 48, seed=1)
    generator = torch.Generator().manual_seed(seed)
    masks = [torch.rand(48, 48, generator=generator) >= p for _ in range(2)]
    return {"x": x, "p": p, "own": False}, {"moved": True}, {"again": masks[0], "further": masks[1], "mask": masks[0]}


def test_an_honest_stream_is_hardly_ever_doubted() -> None:
    doubted = 0
    for seed in range(150):
        one, seen, tensors = _drawn([0.1, 0.3, 0.5, 0.7][seed % 4], seed)
        mask = tensors["mask"]
        doubted += bool([*dropout._share(one, mask, ""), *dropout._stream(one, seen, mask, tensors, "")])
    assert doubted == 0


@pytest.mark.parametrize(
    ("flaw", "name"),
    [
        (lambda mask: mask[:, ::2].repeat_interleave(2, 1), "not independent"),
        (lambda mask: mask[:1].expand(mask.shape), "not independent"),
        (lambda mask: ~mask, "keeps with probability p"),
        (lambda mask: torch.ones_like(mask), "another share"),
    ],
)
def test_a_stream_that_is_none_is_named(flaw: Any, name: str) -> None:
    one, _, tensors = _drawn(0.3, 5)
    mask = flaw(tensors["mask"])
    assert [kind for kind, _ in dropout._share(one, mask, "")] == [name]


def test_a_stream_that_cannot_be_repeated_or_stands_still_is_named() -> None:
    one, seen, tensors = _drawn(0.3, 6)
    mask = tensors["mask"]
    for changed, name in (
        ({"again": tensors["further"]}, "cannot be repeated"),
        ({"further": mask}, "always the same mask"),
    ):
        assert [kind for kind, _ in dropout._stream(one, seen, mask, {**tensors, **changed}, "")] == [name]


@pytest.mark.parametrize("task", [task for task in all_tasks() if task.unit == "u5"], ids=lambda task: task.name)
def test_the_learners_side_never_learns_what_is_asked(task: Any) -> None:
    """Before the library is built, a case holds a number and a name, and the same for every seed."""
    judge = __import__(f"{task.module}.judge", fromlist=["judge"])
    for case in judge.hidden_cases(Random(1)):
        assert set(case.parameters) <= {"number", "what"}
        assert case.tensors == {}
        assert case.kept["calls"] or case.name == "names it needs"
