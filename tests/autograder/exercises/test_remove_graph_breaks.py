"""What the gate does not show of the judge of `remove_graph_breaks`: its own inputs, and evidence that was forged."""

from random import Random

import pytest
import torch
from torch.func import functional_call

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day1.remove_graph_breaks import judge as judging
from autograder.exercises.day1.remove_graph_breaks.visible import BrokenModel, build, probe, visible_cases


class Unbroken(BrokenModel):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))


def travelled(case: Case) -> Evidence:
    return Evidence.from_message(*probe(case, Unbroken).to_message())


def findings(case: Case, evidence: Evidence) -> list[str]:
    return [name for name, _ in judging.judge(case, evidence)]


def test_hidden_cases_come_from_the_seed_and_try_both_sides() -> None:
    first, again, other = (judging.hidden_cases(Random(seed)) for seed in ("a", "a", "b"))
    assert first == again
    assert [case.parameters for case in first] != [case.parameters for case in other]
    assert {case.parameters["relu_side"] for case in first} == {True, False}


@pytest.mark.parametrize("case", [*visible_cases(), *judging.hidden_cases(Random("sides"))], ids=lambda case: case.name)
def test_inputs_of_the_judge_cover_both_sides(case: Case) -> None:
    given, _ = build(case)
    sides = []
    for parameters, x in judging.samples_of(case):
        hidden = torch.nn.functional.linear(x, parameters["first.weight"], parameters["first.bias"])
        sides.append(bool((hidden / (1 + hidden.abs().max())).mean() > 0))
        assert functional_call(given, parameters, (x,)).requires_grad
    assert sorted(sides) == [False] * 4 + [True] * 4


def test_the_variant_without_a_misconception_is_the_given_model() -> None:
    # Misconceptions are recognised by comparing with variants; a variant that is off itself would name the wrong one.
    case = visible_cases()[0]
    given, _ = build(case)
    right = judging._variant("right", "right")
    for parameters, x in judging.samples_of(case):
        torch.testing.assert_close(right(parameters, x), functional_call(given, parameters, (x,)))


def test_honest_evidence_passes() -> None:
    for case in visible_cases():
        assert findings(case, travelled(case)) == []


def test_ones_in_place_of_the_parameters_are_no_answer() -> None:
    case = visible_cases()[0]
    forged = travelled(case)
    forged.values["placeholders"] = [
        "input" if name == "input" else "tensor 0" for name in forged.values["placeholders"]
    ]
    forged.tensors["tensor 0"] = torch.ones(())
    assert findings(case, forged) == ["computes something else"]


def test_weights_baked_into_the_graph_are_no_answer() -> None:
    case = visible_cases()[0]
    given, _ = build(case)
    forged = travelled(case)
    names = forged.values["placeholders"]
    for i, name in enumerate(names):
        if name.startswith("parameter "):
            forged.tensors[f"tensor {i}"] = given.state_dict()[name.removeprefix("parameter ")]
            names[i] = f"tensor {i}"
    assert findings(case, forged) == ["computes something else"]


def test_claiming_one_graph_without_sending_it_is_no_answer() -> None:
    case = visible_cases()[0]
    forged = travelled(case)
    forged.graphs = {}
    assert findings(case, forged) == ["not one graph"]


def test_float_of_a_tensor_counts_as_item() -> None:
    class WithFloat(BrokenModel):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.first(x)
            hidden = hidden / (1.0 + float(hidden.detach().abs().max()))
            return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

    case = visible_cases()[0]
    evidence = Evidence.from_message(*probe(case, WithFloat).to_message())
    assert findings(case, evidence) == ["number taken out"]
