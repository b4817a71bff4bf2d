"""What the gate does not show of the judges of day 5: whether cases tell answers apart, and forged evidence."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch.export import Dim, export

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day5.branch_evidence import judge as branches
from autograder.exercises.day5.branch_evidence import visible as branching
from autograder.exercises.day5.dynamic_sizes import judge as sizes
from autograder.exercises.day5.dynamic_sizes import visible as sized
from autograder.exercises.day5.insert_after import judge as insertion
from autograder.exercises.day5.insert_after import visible as inserting
from autograder.exercises.day5.pipeline import judge as pipelines
from autograder.exercises.day5.pipeline import visible as assembled
from autograder.exercises.day5.pipeline_passes import PASSES
from autograder.exercises.day5.recompile_log import judge as logs
from autograder.exercises.day5.recompile_log import visible as logged

SEEDS = ("a", "b", "c")


def every_case(visible: Any, judge: Any) -> list[Case]:
    drawn = [case for seed in SEEDS for case in judge.hidden_cases(Random(seed))]
    unique = {f"{case.name} {case.parameters}": case for case in drawn}  # some are the same for every seed
    return [*visible.visible_cases(), *unique.values()]


def names(judged: object) -> list[str]:
    told = [found for found in judged if not isinstance(found, Agreement)]  # type: ignore[attr-defined]
    return [found.question if isinstance(found, Deviation) else found[0] for found in told]


def compiled_calls(case: Case) -> list[int]:
    return logs.compilations(logged.FUNCTIONS[case.parameters["function"]], logged.make_calls(case))


@pytest.mark.parametrize("case", every_case(logged, logs), ids=lambda case: case.name)
def test_calls_are_reused_and_compiled_again(case: Case) -> None:
    counts = compiled_calls(case)
    assert counts[0] == 1
    assert len(counts) == 1 or {0, 1} == set(counts[1:])


def test_a_change_that_no_guard_sees_is_not_to_blame() -> None:
    """The fourth call is smaller and has another note; only one of the two may be named."""
    case = logged.visible_cases()[0]
    words = ["compiled", *("recompiled" if count else "reused" for count in compiled_calls(case)[1:])]
    calls = case.parameters["calls"]
    blamed = [
        next(name for name in ("image", "bright", "gain") if call[name] != calls[0][name])
        if word == "recompiled"
        else ""
        for word, call in zip(words, calls, strict=True)
    ]
    right = [list(pair) for pair in zip(words, blamed, strict=True)]
    assert names(logs.judge(case, Evidence({"logs": [right, right]}))) == []
    assert right[3] == ["recompiled", "image"]
    forged = [*right[:3], ["recompiled", "note"], *right[4:]]
    assert names(logs.judge(case, Evidence({"logs": [forged, forged]}))) == ["wrong argument"]


@pytest.mark.parametrize("case", every_case(branching, branches), ids=lambda case: case.name)
def test_a_trace_is_wrong_on_some_inputs_exactly_where_there_are_branches(case: Case) -> None:
    model = branching.MODELS[case.parameters["model"]]().eval()
    inputs = branching.make_inputs(case)
    wrong = branches.wrong_inputs(branches.traced_on(model, inputs[0]), model, inputs)
    assert bool(wrong) == (case.parameters["model"] not in ("plain", "knows"))
    assert 0 not in wrong


def test_a_graph_and_code_that_differ_are_a_forgotten_recompile() -> None:
    case = inserting.visible_cases()[0]
    wanted, unchanged = insertion.expected(case), fx.symbolic_trace(inserting.TwoReaders())
    wanted.recompile()
    graphs = {"graph": encode(wanted), "code": encode(fx.symbolic_trace(wanted))}
    assert names(insertion.judge(case, Evidence({"returned": "GraphModule"}, graphs=graphs))) == []
    graphs["code"] = encode(unchanged)
    assert names(insertion.judge(case, Evidence({"returned": "GraphModule"}, graphs=graphs))) == ["forgot recompile"]


@pytest.mark.parametrize("case", every_case(sized, sizes), ids=lambda case: case.name)
def test_what_varies_is_what_the_exporter_lets_vary(case: Case) -> None:
    """The judge finds out by running the model; the exporter by reasoning. They agree."""
    model = sized.MODELS[case.parameters["model"]](case.parameters["width"]).eval()
    shapes = sizes.without_ones(case)
    example = {name: torch.ones(shapes[name], dtype=value.dtype) for name, value in sized.make_example(case).items()}
    automatic = {name: [Dim.AUTO] * value.dim() for name, value in example.items()}
    program = export(model, (), example, dynamic_shapes=automatic)
    found = {
        (node.name, i): str(size)
        for node in program.graph.nodes
        if node.name in example
        for i, size in enumerate(node.meta["val"].shape)
    }
    together = sizes.varies_together(case)
    assert {place for place, size in found.items() if not size.isdigit()} == set(together)
    symbols = {place: set(re.findall(r"s\d+", size)) for place, size in found.items()}  # 2*s0 varies with s0
    for place, others in together.items():
        assert {other for other in together if symbols[other] == symbols[place]} == set(others)


def honest(case: Case) -> Evidence:
    """What the probe sends of a right pipeline, with the record of the stopwatch that the judge holds."""
    given, model = assembled.build(case), assembled.build(case).eval()
    example = assembled.draw(case, 3, 1, positive=True)
    captured = export(model, (example,), dynamic_shapes=({0: Dim("batch", min=1)},)).module()
    assert isinstance(captured, fx.GraphModule)
    result = export(assembled.build(case).eval(), (example,), dynamic_shapes=({0: Dim("batch", min=1)},)).module()
    assert isinstance(result, fx.GraphModule)
    wanted = pipelines.truth(case, model)
    for name in wanted.kept:
        PASSES[name](result)
    watch, times = assembled.instrument(case), {captured: list[float](), result: list[float]()}
    for _ in range(assembled.ROUNDS + 1):
        for graph_module, seconds in times.items():
            seconds.append(watch.answer(assembled.operators_of(graph_module, example)))
    report = {
        "captured": True,
        "kept": wanted.kept,
        "rejected": [name for name in case.parameters["passes"] if name not in wanted.kept],
        "operations": wanted.operations,
        "seconds": [sorted(seconds[1:])[assembled.ROUNDS // 2] for seconds in times.values()],
    }
    values = {"report": report, "same_model": False, "modules timed": 0, "seen": watch.record}
    graphs = {"model": encode(fx.symbolic_trace(given)), "graph": encode(result), "captured": encode(captured)}
    return Evidence(values, graphs=graphs)


def test_a_report_is_not_believed_without_the_graph() -> None:
    case = assembled.visible_cases()[0]
    right = honest(case)
    assert names(pipelines.judge(case, right)) == []
    captured_only = Evidence(right.values, graphs=right.graphs | {"graph": right.graphs["captured"]})
    assert names(pipelines.judge(case, captured_only)) == ["passes not applied"]
    invented = right.values | {"report": right.values["report"] | {"seconds": [0.002, 0.001]}}
    assert names(pipelines.judge(case, Evidence(invented, graphs=right.graphs))) == ["wrong seconds"]


def test_a_pass_that_is_wrong_on_none_of_the_inputs_is_rightly_kept() -> None:
    """On all inputs to verify on, `sin` reads less than π, so `drop_abs` looks right; the judge's own exceed it."""
    given = {"width": 5, "training": False, "seed": 335625988}
    parts = ["dropout", "layer", "centre", "norm", "relu", "sin", "abs"]
    passes = ["break_halfway", "drop_abs", "fold_scale", "merge_relus", "drop_neutral"]
    script = {"operator": 0.001, "slower": 0.04, "disturbed": [5, 8]}
    case = Case("looks right", {"parts": parts, "passes": passes} | given, kept=script)
    model, wanted = assembled.build(case).eval(), pipelines.known_truth(case)
    assert "drop_abs" in wanted.kept
    x = assembled.draw(case, 4, 24)
    with torch.no_grad():
        assert not torch.allclose(wanted.result(x), model(x), atol=1e-4)
    assert names(pipelines.judge(case, honest(case))) == []


def test_each_pass_is_kept_in_some_case_and_those_that_are_wrong_rejected_in_some() -> None:
    kept, rejected = set(), set()
    for case in every_case(assembled, pipelines):
        if assembled.UNCAPTURED & set(case.parameters["parts"]):
            continue
        found = pipelines.truth(case, assembled.build(case).eval()).kept
        kept |= set(found)
        rejected |= set(case.parameters["passes"]) - set(found)
    assert kept >= {"drop_neutral", "merge_relus", "fold_scale"}
    assert rejected >= {"drop_abs", "break_halfway"}
    assert "break_halfway" not in kept


def test_a_model_that_goes_through_its_rows_is_refused_by_the_exporter_and_serves_any_batch_itself() -> None:
    cases = [case for case in every_case(assembled, pipelines) if "rows" in case.parameters["parts"]]
    assert cases
    for case in cases:
        model: nn.Module = assembled.build(case).eval()
        with pytest.raises(torch._dynamo.exc.UserError):
            export(model, (assembled.draw(case, 3, 1),), dynamic_shapes=({0: Dim("batch", min=1)},))
        for batch in (1, 2, 5):
            x = assembled.draw(case, batch, 1)
            assert model(x).shape == x.shape


def test_the_model_with_a_branch_is_refused_by_the_exporter() -> None:
    [case, *_] = [case for case in assembled.visible_cases() if "branch" in case.parameters["parts"]]
    model: nn.Module = assembled.build(case).eval()
    with pytest.raises(torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode):
        export(model, (assembled.draw(case, 3, 1),), dynamic_shapes=({0: Dim("batch", min=1)},))
