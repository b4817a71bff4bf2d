"""What the gate does not show of the judges of day 2: figures that name the place, and two mistakes told together."""

from __future__ import annotations

import re
from typing import Any

import torch

from autograder.exchange.verdict import Deviation
from autograder.exercises.day2.fold_batchnorm import judge as folding
from autograder.exercises.day2.fold_batchnorm import visible as batchnorm
from autograder.exercises.day2.fold_batchnorm.reference import fold_batchnorm
from autograder.exercises.day2.merge_duplicates.reference import find_duplicates
from autograder.exercises.day2.write_a_pass import judge as passing
from autograder.exercises.day2.write_a_pass import visible as merging
from fxopt_core.passes import Analysis, GraphEditor, Opportunity, OptimizationPass


def judged_weights(weight_factor: float, bias_shift: float) -> tuple[str, str]:
    """What the judge says where each folded weight and bias is off by as much."""
    case = batchnorm.visible_cases()[0]

    def off(**given: Any) -> tuple[torch.Tensor, torch.Tensor]:
        weight, bias = folding.algebra(given)[""]
        return weight * weight_factor, bias + bias_shift

    (told,) = folding.judge(case, batchnorm.probe(case, off, fold_batchnorm))
    assert isinstance(told, Deviation)
    assert told.fits == ()
    return told.question, told.figures


def test_the_algebra_says_which_of_weight_and_bias_is_off_and_by_how_much() -> None:
    name, figures = judged_weights(1.0, 2.0)
    assert name == "wrong algebra"
    assert "the weight is right; the bias of channel " in figures
    found, expected = map(float, re.findall(r"-?\d+\.\d{4}", figures))
    assert abs(found - expected - 2.0) < 1e-3
    _, figures = judged_weights(2.0, 0.0)
    assert figures.startswith("(with everything: the weight of channel ")
    assert figures.endswith("the bias is right)")


class ByHand(OptimizationPass):
    """Rewrites past the editor, and refuses nothing."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        pairs = find_duplicates(editor.graph_module).items()
        return Analysis([Opportunity(node, first) for node, first in pairs])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        opportunity.node.replace_all_uses_with(opportunity.data)
        editor.graph.erase_node(opportunity.node)


def test_what_bypassed_the_editor_and_what_was_not_refused_are_both_told() -> None:
    case = next(case for case in merging.visible_cases() if case.name == "draws beside duplicates")
    told = dict(passing.judge(case, merging.probe(case, ByHand)))
    assert list(told)[:2] == ["bypassed the editor", "no refusals"]
    assert told["bypassed the editor"] == (
        "(1 node went, and the log has 0 of them; for sin_1 it says that nothing was removed)"
    )
