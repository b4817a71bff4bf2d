"""What the gate does not show of the judges of day 3: their own inputs and variants, and evidence that was forged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day3.capture_outcomes import judge as outcomes
from autograder.exercises.day3.capture_outcomes.visible import visible_cases as outcome_cases
from autograder.exercises.day3.dynamic_export import judge as dynamic
from autograder.exercises.day3.dynamic_export import visible as reader
from autograder.exercises.day3.exportable_control_flow import judge as control
from autograder.exercises.day3.exportable_control_flow import visible as given
from autograder.exercises.day3.extract_any import judge as extraction
from autograder.exercises.day3.silent_mistake import judge as silent
from autograder.exercises.day3.silent_mistake import visible as traced


def honest(model: reader.Reader, example: tuple[torch.Tensor, torch.Tensor]) -> ExportedProgram:
    sizes = {0: Dim("batch", min=1), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    inputs = tuple(value.repeat(2, 1) for value in example)
    return export(model.eval(), inputs, dynamic_shapes=(sizes, sizes))


def names(judged: object) -> list[str]:
    return [name for name, _ in judged]  # type: ignore[attr-defined]


def test_ranges_that_are_only_claimed_are_no_use() -> None:
    case = reader.visible_cases()[0]
    promised = reader.probe(case, honest)
    frozen = reader.probe(case, lambda model, example: export(model.eval(), example))
    assert names(dynamic.judge(case, promised)) == []
    forged = Evidence(promised.values, graphs=frozen.graphs)
    assert names(dynamic.judge(case, forged)) == ["froze the length"]


def test_the_reader_fails_where_the_honest_range_ends() -> None:
    for case in [*reader.visible_cases(), *dynamic.hidden_cases(Random("ends"))]:
        model = reader.build(case)[0].eval()
        least, most = model.skip + 1, model.positions.num_embeddings
        for length in (least, most):
            assert torch.isfinite(model(**dynamic.sample(model, 3, length))).all()
        if model.skip:
            assert torch.isnan(model(**dynamic.sample(model, 3, least - 1))).all()
        else:
            with pytest.raises(RuntimeError):  # an empty tensor has no last size to infer
                model(**dynamic.sample(model, 3, 0))
        with pytest.raises(IndexError):
            model(**dynamic.sample(model, 3, most + 1))


@pytest.mark.parametrize(
    "case", [*given.visible_cases(), *control.hidden_cases(Random("sides"))], ids=lambda case: case.name
)
def test_inputs_of_the_judge_try_both_sides_and_all_steps(case: Case) -> None:
    model, _, _ = given.build(case)
    seen = set()
    for x, count in control.samples_of(case, model):
        with torch.no_grad():
            seen.add((bool(model.first(x).mean() > 0), count))
            # Misconceptions are recognised by comparing with variants; one that is off itself would name the wrong one.
            assert control.close(control.variant(model, x, "right", count), model(x, torch.tensor(count)))
    most = model.most_steps
    for side in (True, False):
        counts = {count for other, count in seen if other is side}
        # Of a long loop not every number of steps, but more than its ends.
        assert counts == {*range(most + 1)} if most < 10 else len(counts) > 4 and {0, 1, most - 1, most} <= counts


@pytest.mark.parametrize("bias", [-50.0, 50.0])
def test_each_side_is_reached_at_once_also_where_a_bias_outweighs_what_is_drawn(bias: float) -> None:
    """A student's model may be such a one: to draw until the side is right took the judge a minute."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = given.GivenModel(4, 3, 2)
    nn.init.constant_(model.first.bias, bias)
    for positive in (True, False):
        x = given.draw_input(model, 5, positive, torch.Generator().manual_seed(1))
        level = float(model.first(x).mean())
        assert x.shape == (5, 4)
        assert (level > 0) == positive
        assert abs(level) > given.MARGIN


def test_every_variant_differs_from_the_given_model() -> None:
    case = given.visible_cases()[0]
    model, _, _ = given.build(case)
    samples = list(control.samples_of(case, model))
    for side in control.SIDES:
        with torch.no_grad():
            same = all(
                control.close(control.variant(model, x, side, count), model(x, torch.tensor(count)))
                for x, count in samples
            )
        assert same == (side == "right"), side


def test_only_faithful_traces_are_faithful() -> None:
    """An input that tells model and trace apart exists within the domain, but where the trace is right or loud."""

    def silently_wrong(model: nn.Module, trace: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> bool:
        wanted = model(x)
        try:
            found = trace(x)
        except RuntimeError:
            return False
        return found.shape != wanted.shape or not torch.allclose(wanted, found, atol=1e-3, equal_nan=True)

    for case in [*traced.visible_cases(), *silent.hidden_cases(Random("x"))]:
        model, trace, example = traced.build(case)
        batch, length, width = example.shape
        candidates = [
            sign * size * (torch.rand(batch, steps, width) + 0.2)
            for sign in (1, -1)
            for size in (1.0, 100.0, 800.0)
            for steps in (length, length + 1)
        ]
        assert all(x.abs().max() <= traced.MOST for x in candidates)
        with torch.no_grad():
            differs = any(silently_wrong(model, trace, x) for x in candidates)
        assert differs == (case.parameters["model"] in silent.MISSED), case.parameters


def test_the_outcomes_tell_the_models_apart() -> None:
    """Otherwise the evidence of one case would serve another; and every outcome is met."""

    def measured(cases: list[Case]) -> list[tuple[str, ...]]:
        return [tuple(outcomes.measure(method, case) for method in outcomes.CAPTURES) for case in cases]

    for lines in (measured(outcome_cases()), measured(outcomes.hidden_cases(Random("x")))):
        assert len(set(lines)) == len(lines)
        assert {word for line in lines for word in line} == {"whole", "pieces", "wrong", "refused"}


def test_what_is_core_is_not_called_decomposable() -> None:
    program = export(nn.TransformerEncoderLayer(8, 2, batch_first=True).eval(), (torch.randn(2, 3, 8),))
    before = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    core = program.run_decompositions()
    after = {str(node.target) for node in core.graph.nodes if node.op == "call_function"}
    assert before & extraction.decomposable()
    assert not after & extraction.decomposable()
