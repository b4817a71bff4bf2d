"""What the gate does not show of unit 4's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Deviation
from autograder.exercises.u4.checkpointing import judge as checkpointing
from autograder.exercises.u4.checkpointing import visible as checkpointing_visible
from autograder.exercises.u4.custom_function import judge as quantizing
from autograder.exercises.u4.custom_function import visible as quantizing_visible
from autograder.exercises.u4.forward_mode import judge as forward
from autograder.exercises.u4.forward_mode import visible as forward_visible
from autograder.exercises.u4.in_place_errors import judge as in_place
from autograder.exercises.u4.in_place_errors import visible as in_place_visible
from autograder.exercises.u4.own_engine import engine
from autograder.exercises.u4.own_engine import judge as engines
from autograder.exercises.u4.own_engine import visible as engines_visible


def programs(seeds: int) -> list[engines_visible.Program]:
    cases = [case for seed in range(seeds) for case in engines.hidden_cases(Random(seed))]
    given = [case.parameters for case in [*engines_visible.visible_cases(), *cases] if case.name != "a long chain"]
    return [one for one in given if not one["raises"]]


def comparable(given: engines_visible.Program, seen: engines.Seen) -> list[Any]:
    nodes = engines_visible.reached(engines_visible.build(given)[1])
    leaves = {number for number, node in enumerate(nodes) if engines_visible.in_words(node) == "AccumulateGrad"}
    return [engines.as_comparable(order, leaves) for order in seen[0]]


def test_hooks_on_pytorchs_engine_and_the_model_agree_on_random_graphs() -> None:
    called: Counter[int] = Counter()
    for given in programs(3):
        right, model = engines.by_pytorch(given), engines.by_model(given)
        assert model is not None
        assert comparable(given, right) == comparable(given, model)
        assert engines._alike(right[1], model[1])
        called.update(len(order) for order in right[0])
    assert sum(count for size, count in called.items() if size >= engines.FEWEST) >= 9


def test_every_sequence_number_is_higher_than_those_of_the_nodes_it_leads_to() -> None:
    """Why an engine that takes the highest never calls a node too early, but for leaves."""
    for given in programs(2):
        for node in engines_visible.reached(engines_visible.build(given)[1]):
            for following, _ in node.next_functions:
                if following is not None and following.next_functions:
                    assert following._sequence_nr() < node._sequence_nr()


def test_each_flaw_of_the_engine_shows_in_some_case() -> None:
    given = programs(1)
    for name, ways in engine.FLAWS.items():
        for flaws in ways:
            seen = [(one, engines.by_pytorch(one), engines.by_model(one, flaws)) for one in given]
            assert any(
                model is None
                or comparable(one, right) != comparable(one, model)
                or not engines._alike(right[1], model[1])
                for one, right, model in seen
            ), (name, flaws)


def test_leaves_that_are_ready_together_may_go_in_any_order() -> None:
    assert engines.as_comparable([0, 3, 2, 1], {2, 3}) == engines.as_comparable([0, 2, 3, 1], {2, 3})
    assert engines.as_comparable([0, 3, 1, 2], {2, 3}) != engines.as_comparable([0, 2, 3, 1], {2, 3})
    assert engines.as_comparable([1, 0], set()) != engines.as_comparable([0, 1], set())


def test_pytorchs_engine_is_off_while_an_answer_runs_and_on_again_afterwards() -> None:
    x = torch.ones(2, requires_grad=True)
    run = torch.autograd.graph._engine_run_backward
    with engines_visible.engine_off():
        for call in (
            lambda: x.sum().backward(),
            lambda: torch.autograd.grad(x.sum(), x),
            lambda: run((x.sum(),), (None,), False, False, (x,), False),
        ):
            with pytest.raises(RuntimeError, match="switched off in this task"):
                call()
    x.sum().backward()
    assert x.grad is not None


def test_a_write_that_pytorch_notices_is_one_that_raises_the_version() -> None:
    """The judge asks PyTorch whether it raises, and its hooks for versions: the two must agree."""
    outcomes: Counter[str] = Counter()
    random = Random(4)
    for _ in range(150):
        seen = in_place.observe(in_place.random_program(random))
        outcomes[in_place.right_answer(seen)[0]] += 1
        if seen.failed is None:
            assert seen.raises == bool(seen.bumped)
            assert seen.changed or not seen.differs
    assert set(outcomes) == set(in_place_visible.OUTCOMES)


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([["exp", 0], ["data mul_", 1], ["loss", 1]], ["silent", 1]),
        ([["exp", 0], ["mul_", 1], ["loss", 1]], ["raises in backward", 1]),
        ([["exp", 0], ["mul_", 0], ["loss", 1]], ["raises when written", 1]),
        ([["sin", 0], ["mul_", 1], ["loss", 1]], ["fine", None]),
    ],
)
def test_outcomes_that_are_known(steps: list[Any], answer: list[Any]) -> None:
    assert in_place.right_answer(in_place.observe(in_place_visible.program("x", *steps))) == answer


def test_every_mistake_about_writes_shows_in_some_case() -> None:
    cases = [*in_place_visible.visible_cases(), *in_place.hidden_cases(Random(0))]
    seen = [in_place.observe(given) for case in cases for given in case.parameters["programs"]]
    shown = {
        name
        for one in seen
        for name, answers in in_place.outcomes_by_mistake(one).items()
        if any(answer != in_place.right_answer(one)[0] for answer in answers)
    }
    assert shown == set(in_place.outcomes_by_mistake(seen[0]))


def test_the_formulas_of_the_quantizer_are_those_of_a_straight_through_composite() -> None:
    """First derivatives by PyTorch, from the known trick with detach, which has no right second derivative."""
    told = 0
    for case in quantizing.hidden_cases(Random(1)):
        given, levels = quantizing_visible.made(case.parameters), case.parameters["levels"]
        x, step = (given[name].clone().requires_grad_() for name in ("x", "step"))
        v, n, inside = quantizing.levels_of(x, step, levels)
        value = step * torch.where(inside, v + (n - v).detach(), n.detach())
        found = torch.autograd.grad(value, (x, step), given["weights"])
        wanted = quantizing.gradients_of(given["x"], given["step"], given["weights"], levels)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        told += bool(inside.any()) and bool((~inside).any())
    assert told >= 6


def test_cases_of_the_quantizer_hold_values_on_the_border_between_two_levels() -> None:
    halves = [case.parameters for case in quantizing.hidden_cases(Random(2)) if case.parameters["halves"]]
    exact, inexact = sorted(halves, key=lambda parameters: parameters["inexact"])
    assert (exact["inexact"], inexact["inexact"]) == (False, True)
    given = quantizing_visible.made(exact)
    v = given["x"] / given["step"]
    ties = v[(v - v.floor()) == 0.5]
    assert (torch.round(ties) != torch.floor(ties + 0.5)).any()
    given = quantizing_visible.made(inexact)
    inverted = given["x"] * (1 / given["step"])
    assert (torch.round(inverted) != torch.round(given["x"] / given["step"])).any()


def test_pytorchs_own_checkpoint_passes_and_no_checkpoint_does_not() -> None:
    from torch.utils.checkpoint import CheckpointError, checkpoint

    cases = [*checkpointing_visible.visible_cases(), *checkpointing.hidden_cases(Random(0))]

    def own(function: Any, *inputs: Any) -> Any:
        return checkpoint(function, *inputs, use_reentrant=False)

    missed = []
    for case in cases:
        # Without anybody to ask for gradients there is nothing to compute again.
        if case.name == "nobody asks":
            continue
        if any("cube" in piece for piece in case.parameters["pieces"]):
            # PyTorch's refuses a node that reads a saved value twice; the task asks for more.
            with pytest.raises(CheckpointError, match="already unpacked once"):
                checkpointing_visible.probe(case, own)
        else:
            assert list(checkpointing.judge(case, checkpointing_visible.probe(case, own))) == [], case.name
        missed += list(checkpointing.judge(case, checkpointing_visible.probe(case, checkpointing.plainly)))
    assert {name for name, _ in missed} == {"nothing computed again"}


def test_dual_numbers_of_the_judge_are_forward_mode() -> None:
    cases = [
        *forward_visible.visible_cases(),
        *(case for seed in range(3) for case in forward.hidden_cases(Random(seed))),
    ]
    for case in cases:
        if case.parameters["raises"]:
            continue
        value, product = forward.by_pytorch(case.parameters)
        assert value.isfinite().all() == ("the result is infinite" not in case.name), case.name
        assert product.isfinite().all()
        if case.parameters["dual"]:
            assert forward._alike(case.parameters, forward._by_dual(case.parameters, forward.Dual), product), case.name


def test_each_flaw_of_dual_numbers_changes_the_tangent_in_some_case() -> None:
    cases = [*forward_visible.visible_cases(), *forward.hidden_cases(Random(0))]
    given = [case.parameters for case in cases if case.parameters["dual"]]
    right = [forward.by_pytorch(one) for one in given]
    for name, ways in forward.FLAWED.items():
        for way in ways:
            tangents = [forward._by_dual(one, way) for one in given]
            assert any(
                tangent is not None and forward._like(tangent, value) and not forward._alike(one, tangent, product)
                for one, tangent, (value, product) in zip(given, tangents, right, strict=True)
            ), name


def test_the_mistake_that_alone_explains_a_tangent_is_named() -> None:
    [case] = [case for case in forward.hidden_cases(Random(0)) if case.name == "relu at zero"]
    value, product = forward.by_pytorch(case.parameters)
    [flawed] = forward.FLAWED["relu at zero"]
    tangent = forward._by_dual(case.parameters, flawed)
    assert tangent is not None
    evidence = Evidence({"dual is": "Dual"}, {"dual value": value, "dual tangent": tangent})
    [found] = list(forward._judge_dual(case.parameters, evidence, value, product))
    assert isinstance(found, Deviation)
    assert found.fits == ("relu at zero",)


def test_evidence_of_another_length_does_not_pass() -> None:
    case = in_place_visible.visible_cases()[0]
    with pytest.raises(ValueError, match="zip"):
        list(in_place.judge(case, Evidence({"answers": []})))
    engine_case = engines_visible.visible_cases()[0]
    [(name, _)] = list(engines.judge(engine_case, Evidence({"orders": [], "recorded": []})))  # type: ignore[misc]
    assert name == "no list of nodes"
    forward_case = forward_visible.visible_cases()[0]
    [(name, _)] = list(forward.judge(forward_case, Evidence({"dual is": "", "untouched": True})))[:1]  # type: ignore[misc]
    assert name == "no dual number"


def test_orders_that_are_no_numbers_of_nodes_are_refused() -> None:
    case: Case = engines_visible.visible_cases()[0]
    for order in ([-1], [99], ["0"], [1.5]):
        found = list(engines.judge(case, Evidence({"orders": [order], "recorded": []})))
        assert found == [("not the graph's nodes", "")]
