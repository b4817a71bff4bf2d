"""What the gate does not show of unit 8's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from torchgen.model import DispatchKey

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.add_operator import judge as adding
from autograder.exercises.u8.add_operator import visible as adding_visible
from autograder.exercises.u8.derivative_formula import judge as deriving
from autograder.exercises.u8.derivative_formula import visible as deriving_visible
from autograder.exercises.u8.first_bad_commit import judge as bisecting
from autograder.exercises.u8.first_bad_commit import visible as bisecting_visible
from autograder.exercises.u8.minimal_reproducer import judge as shrinking
from autograder.exercises.u8.minimal_reproducer import visible as shrinking_visible
from autograder.exercises.u8.operator_tests import judge as testing
from autograder.exercises.u8.operator_tests import planted
from autograder.exercises.u8.programs import Step, run, smaller
from autograder.exercises.u8.tensors import LAYOUTS, described, made
from fxopt_workbench.internals.mirror import read_operators


def findings(module: Any, case: Case, evidence: Evidence) -> list[str]:
    return [name for name, _ in module.judge(case, evidence)]


def test_every_layout_holds_the_same_numbers() -> None:
    shapes: list[list[int]] = [[], [0, 2], [5], [3, 4], [2, 1, 3]]
    for shape in shapes:
        tensors = [made(described(shape, 7, layout=layout)) for layout in LAYOUTS]
        assert all(torch.equal(tensors[0], one) for one in tensors)
    strides = {made(described([3, 4], 7, layout=layout)).stride() for layout in LAYOUTS}
    assert strides == {(4, 1), (1, 3), (8, 2)}


ENTRIES = """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: function, method
  tags: [pointwise, core]

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: function, method

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU: softcap_out
    CUDA: softcap_out
"""


def test_entries_of_another_form_are_right_and_are_like_those_of_pytorch() -> None:
    operators = read_operators(ENTRIES)
    assert adding.of_entries(operators) is None
    kernel = operators.indices[DispatchKey.CUDA].get_kernel(operators.function("softcap.out"))
    assert kernel is not None
    assert kernel.structured


def test_unmarked_arguments_are_named() -> None:
    unmarked = """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  dispatch:
    CPU: softcap

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  dispatch:
    CPU: softcap_

- func: softcap.out(Tensor self, Tensor cap, *, Tensor out) -> Tensor
  dispatch:
    CPU: softcap_out
"""
    found = adding.of_entries(read_operators(unmarked))
    assert found is not None
    assert found[0] == "not marked as written"


def right_kernel(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(adding.exactly(x, cap))


@pytest.mark.parametrize("seed", range(4))
def test_a_right_kernel_passes_whatever_is_drawn(seed: int) -> None:
    for case in [*adding_visible.visible_cases(), *adding.hidden_cases(Random(seed))]:
        evidence = adding_visible.probe(case, lambda: ENTRIES, right_kernel)
        assert findings(adding, case, evidence) == [], case.name
        # Without a result nobody passes.
        assert findings(adding, case, Evidence(evidence.values, {})) != []


def formulas(case: Case, **changed: str) -> Evidence:
    lines = (deriving.RIGHT | changed).items()
    text = "- name: softcap(Tensor self, Tensor cap) -> Tensor\n"
    return deriving_visible.probe(case, lambda: text + "".join(f"  {name}: {formula}\n" for name, formula in lines))


@pytest.mark.parametrize("seed", range(3))
def test_each_flaw_of_a_formula_is_named_and_the_right_ones_pass(seed: int) -> None:
    cases = [*deriving_visible.visible_cases(), *deriving.hidden_cases(Random(seed))]
    for case in cases:
        assert findings(deriving, case, formulas(case)) == [], case.name
    for name, flaws in deriving.FLAWED.items():
        for flaw, formula in flaws.items():
            found = {one for case in cases for one in findings(deriving, case, formulas(case, **{name: formula}))}
            assert flaw in found, (name, flaw)


def test_the_right_formulas_are_those_of_pytorchs_autograd() -> None:
    """By gradcheck, which knows nothing of the judge."""
    x = torch.tensor([-3.0, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    cap = torch.tensor([1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, c: c * torch.tanh(a / c), (x, cap))
    case = deriving_visible.visible_cases()[0]
    values = deriving._values(case)
    for name, formula in deriving.RIGHT.items():
        (wanted,) = torch.autograd.grad(values["result"], values[name], values["grad"], retain_graph=True)
        torch.testing.assert_close(deriving._reduced(deriving.evaluate(formula, values), values[name]), wanted)


def samples_that_find_everything() -> list[testing.Sample]:
    x = torch.linspace(-7, 8, 35).view(5, 7)
    cap = torch.linspace(1, 3, 7)
    caps = torch.linspace(1, 3, 35).view(5, 7)
    odd = torch.tensor([torch.nan, torch.inf, -torch.inf, 1000.0, -1000.0, 0.0, 0.1, 0.05, 0.2])
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
    pairs = [
        *((x.to(one), cap.to(other)) for one in dtypes for other in dtypes),
        *((x.view(7, 5).t(), cap), (x.repeat(1, 2)[:, ::2], cap), (x[0].expand(5, 7), cap)),
        *((x, caps.view(7, 5).t()), (x, caps.repeat(1, 2)[:, ::2]), (x, cap.expand(5, 7))),
        *((x[0], cap.view(7, 1)), (x[:, :1], cap), (torch.tensor(3.0), torch.tensor(2.0))),
        (torch.zeros(0, 2), torch.ones(0, 2)),
        *((x.view(5, 7, 1), caps.view(5, 7, 1)), (x.view(5, 1, 7, 1), caps.view(5, 1, 7, 1)), (odd, torch.tensor(2.0))),
    ]
    return [testing.Sample(one, other, planted.exactly(one, other)) for one, other in pairs]


def test_the_faults_are_faults_and_the_right_kernels_right() -> None:
    good = samples_that_find_everything()
    for how in planted.RIGHT:
        assert testing.failing(good, planted.kernel_of({"kind": "right", "how": how})) is None, how
    plain, two = torch.linspace(1, 2, 8), torch.tensor([2.0])
    blind = [
        [testing.Sample(one, other, planted.exactly(one, other))]
        for one, other in ((plain, two), (plain.view(2, 4), two.view(1, 1)), (plain.double(), two.double()))
    ]
    for given in planted.wrong():
        kernel = planted.kernel_of(given)
        assert testing.failing(good, kernel) is not None, given
        if given != {"kind": "in place", "which": "read too late"}:  # that one shows at once: eight numbers are enough
            assert any(testing.failing(samples, kernel) is None for samples in blind), given
        assert given["kind"] in testing.MISCONCEPTIONS


@pytest.mark.parametrize("strides", [(7, 1), (1, 5), (14, 2), (0, 1), (0, 0), (1, 1), (-7, 1), (7,)])
def test_tensors_get_their_strides_back_or_stay_in_order(strides: tuple[int, ...]) -> None:
    values = torch.arange(35.0).view(5, 7)
    values = values[:1].expand(5, 7).contiguous() if strides == (0, 1) else values
    values = torch.ones(5, 7) if strides == (0, 0) else values
    found = testing.restrided(values, strides)
    assert torch.equal(found, values)
    possible = strides in ((7, 1), (1, 5), (14, 2), (0, 1), (0, 0))
    assert found.stride() == (strides if possible else (7, 1))


def halving(case: Case) -> tuple[list[str], int]:
    """The commits left, and how many tests it took, by a search that takes the best half each time."""
    given, tests = case.parameters, bisecting_visible.instrument(case)
    parents = given["parents"]
    while True:
        left = bisecting.left_after(parents, given["good"], given["bad"], tests.record)
        tested = {commit for commit, _ in tests.record}
        halves = {
            commit: min(inside, len(left) - inside)
            for commit in parents
            if commit not in tested and (inside := len(left & bisecting_visible.ancestors(parents, commit)))
        }
        if not any(halves.values()):
            return sorted(left), len(tests.record)
        tests.answer(max(sorted(halves), key=lambda one: halves[one]))


@pytest.mark.parametrize("seed", range(12))
def test_histories_can_be_searched_within_what_is_allowed(seed: int) -> None:
    for case in [*bisecting_visible.visible_cases(), *bisecting.hidden_cases(Random(seed))]:
        given = case.parameters
        if len(given["parents"]) > 100 and seed:
            continue  # the long one differs in its culprit only, and takes seconds
        suspects = bisecting.suspects_of(given["parents"], given["good"], given["bad"])
        assert case.kept["culprit"] in suspects, case.name
        assert given["good"] in bisecting_visible.ancestors(given["parents"], given["bad"])
        left, count = halving(case)
        assert case.kept["culprit"] in left
        assert len(left) == 1 or case.kept["untestable"]
        most = max(1, math.ceil(math.log2(len(suspects)))) + len(case.kept["untestable"]) + 4
        assert count <= bisecting.figures(case)["allowed"] <= most
        tests = bisecting_visible.instrument(case)
        # One after another is too much, wherever there is a choice to speak of.
        evidence = Evidence({"answer": left, "seen": [[one, tests.answer(one)] for one in sorted(suspects)]})
        if len(suspects) > 8:
            assert findings(bisecting, case, evidence) != []


def test_a_guess_without_tests_does_not_pass() -> None:
    case = bisecting_visible.visible_cases()[0]
    assert findings(bisecting, case, Evidence({"answer": [case.kept["culprit"]], "seen": []})) != []


def test_drawn_histories_have_merges_and_branches() -> None:
    merges = Counter(len(parents) > 1 for seed in range(20) for parents in bisecting.drawn(Random(seed), 20).values())
    assert merges[True] > 20
    for seed in range(20):
        history = bisecting.drawn(Random(seed), 20)
        assert bisecting_visible.ancestors(history, list(history)[-1]) == set(history)


def shrunk(case: Case) -> list[Step]:
    """What no edit makes smaller, by trying them all."""
    fault = shrinking_visible.fault_of(case.kept["faults"])
    program: list[Step] = case.parameters["program"]
    message = case.parameters["message"]
    while True:
        better = next((other for _, other in smaller(program) if run(other, fault) == message), None)
        if better is None:
            return program
        program = better


@pytest.mark.parametrize("seed", range(6))
def test_programs_fail_and_become_small(seed: int) -> None:
    for case in [*shrinking_visible.visible_cases(), *shrinking.hidden_cases(Random(seed))]:
        program = case.parameters["program"]
        fault = shrinking_visible.fault_of(case.kept["faults"])
        assert case.parameters["message"] in [one["message"] for one in case.kept["faults"]], case.name
        assert run(program, fault) == case.parameters["message"]
        least = shrunk(case)
        assert len(least) <= 8, case.name
        assert findings(shrinking, case, Evidence({"program": least, "seen": []})) == []
        if case.name != "nothing to do":
            assert findings(shrinking, case, Evidence({"program": program, "seen": []})) != []


def test_runs_outside_are_counted_whatever_is_run() -> None:
    machine = shrinking_visible.instrument(shrinking_visible.visible_cases()[0])
    odd: list[Any] = [None, 3, "text", [3], [{}], [{"out": "a", "op": []}], [{"out": "a", "op": "t", "inputs": [[]]}]]
    odd += [[{"out": "a", "op": "ones", "size": [0, 1]}], [{"out": "a", "op": "ones", "size": [True, 1]}]]
    for program in odd:
        assert machine.answer(program) != ""
    assert len(machine.record) == len(odd)
    assert machine.answer([]) == ""


def test_malformed_steps_that_are_not_reached_are_left_over() -> None:
    case = shrinking_visible.visible_cases()[0]
    for odd in ({}, {"out": "z"}, {"op": "ones"}, {"out": "z", "op": "ones", "size": [None, 2]}, {"inputs": ["a"]}):
        evidence = Evidence({"program": [*shrunk(case), odd], "seen": []})
        assert findings(shrinking, case, evidence) == ["step left"]
    assert findings(shrinking, case, Evidence({"program": [None], "seen": []})) == ["no program"]


def test_runs_are_limited() -> None:
    case = shrinking_visible.visible_cases()[0]
    many = shrinking.RUNS_A_STEP * len(case.parameters["program"]) + 1
    evidence = Evidence({"program": shrunk(case), "seen": [[1, ""]] * many})
    assert findings(shrinking, case, evidence) == ["too many runs"]
