"""Each wrong pass is recognised for what it is wrong in, and the template's pass and ours are not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx
from wrong_capstones import WRONG

from autograder.capstone.template.own_pass.my_capstone.recognise_gelu import RecogniseGelu
from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode, encode
from autograder.exercises.capstone import EVERY
from autograder.exercises.capstone import FAMILIES as FEW
from autograder.exercises.capstone.examples import restore_examples
from autograder.exercises.capstone.own_pass import judge as judging
from autograder.exercises.capstone.own_pass.figures import counted, gain
from autograder.exercises.capstone.own_pass.programs import (
    encoded,
    is_the_program,
    model_cases,
    random_cases,
    trap_cases,
)
from autograder.exercises.capstone.own_pass.visible import probe
from autograder.traps.table import TRAPS
from fxopt_core.passes import registry

NOT_CARRIED = 15
"""Traps with hooks, functions of which nothing is known (`set_`, `out=`, `set_default_dtype`), and modules of own
classes: no JSON form."""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Those first that tell most, and quickly; models of four families: decoder, similarity, sequence, vision."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(FEW, "4")
        models = model_cases("test2")
    return [*models[-2:], *trap_cases(), *random_cases("test")[:20], *models[:-2]]


def judged(case: Case, evidence: Evidence) -> tuple[list[str], dict[str, Any]]:
    """Misconceptions and figures, after a journey between processes."""
    travelled = Evidence.from_message(*evidence.to_message())
    figures: dict[str, Any] = {}
    names = []
    for found in judging.judge(case, travelled):
        if isinstance(found, dict):
            figures |= found
        else:
            names.append(found[0])
    return names, figures


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make a class known by a name for one test."""

    def known(class_: Any) -> str:
        name = f"capstone_{class_.__name__}"
        monkeypatch.setattr(class_, "name", name)
        monkeypatch.setitem(registry._PASSES, name, class_)
        return name

    return known


def test_nearly_all_traps_travel(cases: list[Case]) -> None:
    assert sum("trap" in case.parameters for case in cases) == len(TRAPS) - NOT_CARRIED


TOLD_BY = {
    "changes gradients": "trap, layout",
    "changes layout": "trap, algebra",
    "folds in training mode": "trap, conv+BN",
    "hard-codes a shape": "sequence",
}
"""How the cases are called that show a mistake, where they come late: these are tried first."""


@pytest.mark.parametrize(("misconception", "class_"), [(name, one) for name, ones in WRONG.items() for one in ones])
def test_a_wrong_pass_gets_its_message(misconception: str, class_: type[Any], cases: list[Case], register: Any) -> None:
    name = register(class_)
    found: set[str] = set()
    first = TOLD_BY.get(misconception, "")
    for case in sorted(cases, key=lambda case: not case.name.startswith(first)):
        try:
            evidence = probe(case, [name])
        except Exception:  # a wrong pass may raise on other programs; that is another message
            continue
        found |= set(judged(case, evidence)[0])
        if misconception in found:
            break
    assert misconception in found
    assert misconception in judging.MISCONCEPTIONS


def test_a_package_without_passes_is_told_so(cases: list[Case]) -> None:
    assert judged(cases[0], probe(cases[0], []))[0] == ["registers nothing"]


def test_the_template_gains_where_gelu_is_written_out_and_nothing_beyond_itself(
    cases: list[Case], register: Any
) -> None:
    """That it is right on everything is tested where it is a package."""
    name = register(RecogniseGelu)
    gained = set()
    for case in cases:
        if "model" in case.parameters:
            names, figures = judged(case, probe(case, [name]))
            assert names == [], case.name
            assert figures["changed"] == (figures["alone"] > 0) == (figures["places"] > 0)
            assert figures["places"] == figures["shared"].get("the template", 0)
            if figures["later"]:
                assert figures["places"] == 0
            elif figures["alone"]:
                gained.add(case.parameters["model"][0])
    assert "decoder" in gained
    assert not gained & {"convolutions", "gated layers", "recurrent cell", "similarity"}


@pytest.mark.parametrize("name", ["common_subexpressions", "dead_code", "redundant_layout", "conv_batchnorm_folding"])
def test_passes_of_ours_are_right_and_gain(name: str, cases: list[Case]) -> None:
    gains = []
    plain = [case for case in cases if not case.parameters.get("later")]
    for case in [*plain[1:300:60], *(case for case in plain if "model" in case.parameters)]:
        names, figures = judged(case, probe(case, [name]))
        assert names == [], case.name
        gains.append(figures.get("alone", 0.0))
        if figures.get("places"):
            assert figures["shared"][name] == figures["places"]
            assert figures["beyond"] <= 1e-6, "the presets do this already"
    assert min(gains) >= 0


def test_figures_that_come_with_the_evidence_are_not_believed(cases: list[Case], register: Any) -> None:
    """What comes back is the graph as it was; that it gains is only said."""
    model = next(case for case in cases if "model" in case.parameters)
    evidence = probe(model, [register(RecogniseGelu)])
    evidence.graphs = {"after": encoded(model), "again": encoded(model)}
    evidence.values |= {"changed": False, "gain": 0.9, "before": {"nodes": 100}, "after": {"nodes": 1}}
    names, figures = judged(model, evidence)
    assert (names, figures["alone"], figures["beyond"]) == ([], 0.0, 0.0)


def left_alone(case: Case, **values: Any) -> Evidence:
    """What a pass sends that changes nothing, and says other things of itself than it should where `values` say so."""
    said = {"passes": ["mine"], "tolerance": 0.0, "keeps_gradients": True, "changed": False}
    return Evidence(said | values, {}, {name: encoded(case) for name in ("after", "again")})


def test_what_comes_back_as_it_went_is_right_and_gains_nothing(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = cases[0]
    assert judged(case, left_alone(case, changed=True))[0] == ["untrue report"]
    monkeypatch.setattr(judging, "differences", None)  # nothing is run to find that out
    monkeypatch.setattr(judging, "timed", None)
    names, figures = judged(case, left_alone(case))
    assert names == []
    assert figures["before"] == figures["after"]
    assert (figures["changed"], figures["alone"], figures["beyond"], figures["seconds"]) == (False, 0, 0, {})
    assert judging.follow_up(replace(case, parameters=case.parameters | {"plant": 0}), left_alone(case)) is None


def test_a_change_in_the_second_run_is_seen_where_the_first_changed_nothing(cases: list[Case]) -> None:
    one, other = cases[0], cases[1]
    sent = left_alone(one)
    sent.graphs["again"] = encoded(other)
    assert judged(one, sent)[0] == ["not idempotent"]


@pytest.mark.parametrize("changed", ["a bit of a weight", "the sign of zero", "one for true", "a weight less"])
def test_the_smallest_change_makes_another_program(changed: str) -> None:
    def program(scalar: object = 0.0, kept: object = True) -> fx.GraphModule:
        root = torch.nn.Module()
        root.register_buffer("weight", torch.ones(3))
        graph = fx.Graph()
        x = graph.placeholder("x")
        scaled = graph.call_function(torch.mul, (x, graph.get_attr("weight")))
        added = graph.call_function(torch.add, (scaled, scalar))
        graph.output(graph.call_function(torch.sum, (added, 0, kept)))
        return fx.GraphModule(root, graph)

    whole = encode(program())
    case = Case("mine", {"graph": whole.document}, whole.tensors)
    assert is_the_program(case, encode(program()))
    other = encode(program(-0.0) if "sign" in changed else program(kept=1) if "true" in changed else program())
    if changed == "a bit of a weight":
        (storage,) = other.tensors.values()
        storage[1] += torch.finfo(torch.float32).eps
    if changed == "a weight less":
        other.tensors.clear()
    assert not is_the_program(case, other)


def test_hidden_cases_come_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EVERY, "10")
    monkeypatch.setenv(FEW, "2")
    one, same, other = (judging.hidden_cases(random.Random(seed)) for seed in ("a", "a", "b"))
    assert [case.parameters for case in one] == [case.parameters for case in same]
    for case, there in zip(one[:10], other, strict=False):
        assert case.parameters["graph"] != there.parameters["graph"]


class Spelled(torch.nn.Module):
    """One linear layer, as a module, a function or an operator."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.layer, self.spelling = torch.nn.Linear(4, 6), spelling

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.spelling == "module":
            return self.layer(x)  # type: ignore[no-any-return]
        function = {"function": torch.nn.functional.linear, "operator": torch.ops.aten.linear.default}[self.spelling]
        return function(x, self.layer.weight, self.layer.bias)  # type: ignore[no-any-return]


def test_another_spelling_costs_the_same() -> None:
    x = torch.randn(2, 3, 4)
    spellings = ("module", "function", "operator")
    figures = [counted(torch.fx.symbolic_trace(Spelled(one)), (x,)) for one in spellings]
    assert figures[0] == figures[1] == figures[2]
    assert figures[0]["FLOPs"] == 2 * 2 * 3 * 4 * 6


def test_models_come_at_both_levels_and_no_two_seeds_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FEW, "2")
    one, other = (
        [case for case in model_cases(seed) if "later" not in case.parameters] for seed in ("test2", "test30")
    )
    assert [case.parameters["model"][1] for case in one] == ["torch", "ATen"]
    assert one[0].parameters["model"][0] == other[0].parameters["model"][0] == "decoder"
    assert one[0].parameters["graph"] != other[0].parameters["graph"]


def test_gain_is_the_mean_of_four_shares() -> None:
    before = {"nodes": 10, "kernels": 8, "bytes": 100, "FLOPs": 0}
    after = {"nodes": 5, "kernels": 8, "bytes": 150, "FLOPs": 0}
    assert gain(before, after) == pytest.approx((0.5 + 0 - 0.5 + 0) / 4)


def test_examples_come_back_with_the_shapes(cases: list[Case]) -> None:
    for case in (case for case in cases if case.parameters.get("model", [None])[0] == "decoder"):
        graph = decode(encoded(case))
        restore_examples(graph)
        calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
        assert calls
        assert all("val" in node.meta for node in calls)
