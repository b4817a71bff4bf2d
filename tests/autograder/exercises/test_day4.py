"""What the gate does not show of the judges of day 4: their own inputs, forged graphs, figures that tell apart."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode
from autograder.exercises.day4 import blocks
from autograder.exercises.day4.compile_profile import judge as profile
from autograder.exercises.day4.compile_profile import visible as machine
from autograder.exercises.day4.dynamic_gpt2 import judge as dynamic
from autograder.exercises.day4.dynamic_gpt2 import visible as gpt2
from autograder.exercises.day4.layer_costs import judge as costs
from autograder.exercises.day4.layer_costs.visible import visible_cases as cost_cases
from autograder.exercises.day4.text_to_bert import judge as texts_judge
from autograder.exercises.day4.text_to_bert import visible as texts


def names(judged: Any) -> list[str]:
    return [name for name, _ in judged]


def compiled(model: nn.Module, backend: Any, dynamic: bool | None = True) -> Any:
    run = torch.compile(model, backend=backend, dynamic=dynamic)
    return lambda input_ids, attention_mask: run(input_ids, attention_mask=attention_mask)[0]


def test_a_count_that_is_only_claimed_is_no_use() -> None:
    """The number of graphs comes from the learner's side; the graphs themselves are run by the judge."""
    case = Case("three batches", {"sizes": [[2, 5], [3, 5], [3, 7]], "seed": 3})
    honest = gpt2.probe(case, compiled)
    assert honest.values["compilations"] == 1
    assert names(dynamic.judge(case, honest)) == []
    frozen = gpt2.probe(case, lambda model, backend: compiled(model, backend, dynamic=False))
    assert names(dynamic.judge(case, frozen)) == ["every size anew"]
    frozen.values["compilations"] = 1
    assert names(dynamic.judge(case, frozen)) == ["graph serves one size"]


@pytest.mark.parametrize(
    "case", [*gpt2.visible_cases(), *dynamic.hidden_cases(Random("x"))], ids=lambda case: case.name
)
def test_batches_tell_a_model_without_its_mask(case: Case) -> None:
    model = gpt2.build(case)
    differs = []
    for tokens, mask in gpt2.batches(case):
        assert len(tokens) != tokens.shape[1]
        blind = dynamic.states(model, tokens, torch.ones_like(mask))
        differs.append(not dynamic.same(blind, dynamic.states(model, tokens, mask), mask))
    sizes = case.parameters["sizes"]
    fillings = case.parameters.get("fillings", ["left"] * len(sizes))  # what follows a token, it never sees
    pairs = zip(sizes, fillings, strict=True)
    # Of `left`, the first row is never filled.
    assert differs == [filling == "left everywhere" or (filling == "left" and rows > 1) for (rows, _), filling in pairs]


def test_sizes_of_the_judge_occur_in_no_case() -> None:
    cases = [*gpt2.visible_cases(), *(case for seed in range(50) for case in dynamic.hidden_cases(Random(seed)))]
    lengths = {length for case in cases for _, length in case.parameters["sizes"]}
    rows = {count for case in cases for count, _ in case.parameters["sizes"]}
    assert not {count for count, _, _ in dynamic.OTHER_SIZES} & rows
    assert any(length not in lengths for _, length, _ in dynamic.OTHER_SIZES)


def test_automatic_dynamic_shapes_take_too_many_graphs_in_every_visible_case() -> None:
    for case in gpt2.visible_cases():
        found = gpt2.probe(case, lambda model, backend: compiled(model, backend, dynamic=None))
        assert found.values["compilations"] > dynamic.MOST_GRAPHS
        assert names(dynamic.judge(case, found)) == ["waited for the change"]


def reference_profile(functions: Any, clock: Any, synchronize: Any, warmup: int, repeats: int) -> dict[str, Any]:
    from autograder.exercises.day1.measure_compile_cost.reference import measure

    found = {name: measure(function, clock, synchronize, warmup, repeats) for name, function in functions.items()}
    return {
        name: {"cost_seconds": row["compile_seconds"] - row["median_seconds"], "call_seconds": row["median_seconds"]}
        for name, row in found.items()
    }


def judged(case: Case, **answers: Any) -> list[str]:
    right = {
        "compile_profile": reference_profile,
        "break_even": profile._break_even,
        "cheapest": lambda rows, calls: min(rows, key=lambda name: profile.total(rows[name], calls)),
    }
    return names(profile.judge(case, machine.probe(case, **(right | answers))))


CASES = [*machine.visible_cases(), *profile.hidden_cases(Random("x"))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_profile_of_the_stopwatch_of_day_1_is_right(case: Case) -> None:
    assert judged(case) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_break_even_is_where_the_totals_cross(case: Case) -> None:
    for figures in case.parameters["comparisons"]:
        plain, other = (dict(zip(machine.RESULTS, pair, strict=True)) for pair in (figures[:2], figures[2:]))
        calls = profile._break_even(plain, other)
        if calls == math.inf:
            assert other["call_seconds"] >= plain["call_seconds"]
            continue
        assert profile.total(other, calls) <= profile.total(plain, calls)
        assert calls == 1 or profile.total(other, calls - 1) > profile.total(plain, calls - 1)


@pytest.mark.parametrize("case", CASES[2:5], ids=lambda case: case.name)
def test_drawn_jobs_have_different_winners(case: Case) -> None:
    """So no fixed choice and no habit wins them all."""
    winners = [
        min(rows, key=lambda name: profile.total(rows[name], calls)) for rows, calls in case.parameters["jobs"][-3:]
    ]
    assert len(set(winners)) == len(winners)


def test_a_profile_that_never_waits_fails_however_plausible_its_figures() -> None:
    case = CASES[0]

    def hasty(functions: Any, clock: Any, synchronize: Any, warmup: int, repeats: int) -> dict[str, Any]:
        return reference_profile(functions, clock, lambda: None, warmup, repeats)

    assert judged(case, compile_profile=hasty) == ["device still busy"]


def test_a_case_tells_every_mistake_in_the_costs_from_the_right_figure() -> None:
    for case in [*cost_cases(), *costs.hidden_cases(Random("x"))]:
        figures = costs.explanations(case)
        right = figures.pop("")
        same = {name for name, figure in figures.items() if figure == right}
        one_token = case.parameters["batch"] == case.parameters["length"] == 1
        assert same == ({"forgot the batch", "one token only"} if one_token else set()), case.name


def test_a_graph_that_raises_does_not_serve() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(torch.ops.aten.add.Tensor, (graph.placeholder("x"), 1)))
    case = gpt2.visible_cases()[0]
    evidence = Evidence({"arguments": [[["input_ids", "int64"]]]}, graphs={"0": encode(fx.GraphModule({}, graph))})
    assert not dynamic.serves(evidence, "0", gpt2.build(case))


def test_a_graph_is_exported_once_and_each_call_gets_its_own() -> None:
    case = blocks.block("once", masked=False, seed=123)
    first, second = blocks.build(case), blocks.build(case)
    assert blocks.build(Case("another name", case.parameters)).code == first.code
    assert blocks._exported.cache_info().hits >= 2
    with torch.no_grad():
        for value in first.parameters():
            value.zero_()
    for node in list(first.graph.nodes):
        node.meta.clear()
    first.graph.eliminate_dead_code()
    third = blocks.build(case)
    inputs = blocks.inputs_of(case, 1)
    assert torch.equal(third(*inputs)[0], second(*inputs)[0])
    assert not torch.equal(third(*inputs)[0], first(*inputs)[0])
    assert all(node.meta for node in third.graph.nodes if node.op == "call_function")
    assert blocks.build(blocks.block("other weights", masked=False, seed=124)).code == first.code


def test_the_judge_takes_texts_apart_as_the_tokenizer_does() -> None:
    for case in [*texts.visible_cases(), *texts_judge.hidden_cases(Random("x"))]:
        tokenizer = texts.build_tokenizer(texts.vocabulary_of(case))
        limits = {"truncation": True, "max_length": case.parameters["most"]}
        found = tokenizer(case.parameters["texts"], padding=True, return_tensors="pt", **limits)
        wanted = texts.model_inputs(case)
        assert found["input_ids"].equal(wanted["input_ids"]), case.name
        assert found["attention_mask"].equal(wanted["attention_mask"]), case.name
