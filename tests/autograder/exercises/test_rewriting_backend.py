"""What the gate does not show of the judge of `rewriting_backend`: hidden cases, and evidence that was forged."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement
from autograder.exercises.day1.rewriting_backend import judge as judging
from autograder.exercises.day1.rewriting_backend.visible import SIGNATURE, build, probe, visible_cases


def make_backend(compile_inner: Callable[..., Any]) -> Callable[..., Any]:
    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend


def travelled(case: Case) -> Evidence:
    return Evidence.from_message(*probe(case, make_backend).to_message())


def findings(case: Case, evidence: Evidence) -> list[str]:
    found = judging.judge(case, evidence)
    return [one[0] if isinstance(one, tuple) else one.question for one in found if not isinstance(one, Agreement)]


def test_hidden_cases_come_from_the_seed_and_hold_every_kind() -> None:
    first, again, other = (judging.hidden_cases(Random(seed)) for seed in ("a", "a", "b"))
    assert first == again
    assert [case.parameters for case in first] != [case.parameters for case in other]
    for case in first + other:
        assert findings(case, travelled(case)) == []
    for case in (*first[-2:], *other[-2:]):
        activations = case.parameters["activations"]
        assert {"exact", "exact, by keyword"} <= set(activations)
        assert {"exact, said so", "exact module"} & set(activations)
        assert {"tanh", "relu"} & set(activations)


def test_hidden_models_stay_finite_whatever_is_drawn() -> None:
    # The judge runs a graph on weights of its own. Where layers multiply, these overflow, and no answer is right.
    for seed in range(20):
        for case in judging.hidden_cases(Random(seed)):
            model, inputs = build(case)
            generator = torch.Generator().manual_seed(seed)
            for value in model.parameters():
                value.data = torch.randn(value.shape, generator=generator)
            with torch.no_grad():
                assert model(inputs[0]).abs().max() < 1e12, (seed, case.name)


def test_exact_and_approximate_models_are_told_apart() -> None:
    # The tolerance must lie below what the approximation changes, or a forgotten recompile would pass.
    cases = [*visible_cases(), *judging.hidden_cases(Random("gap"))]
    for case in (case for case in cases if any("exact" in name for name in case.parameters["activations"])):
        exact, inputs = build(case)
        model, _ = build(case)
        approximate = judging.compiled_by(model, SIGNATURE, judging.rewritten)
        with torch.no_grad():
            assert not judging._close(approximate(inputs[0]), SIGNATURE * exact(inputs[0]))


def test_outputs_of_the_uncompiled_graph_are_found() -> None:
    case = visible_cases()[0]
    forged = travelled(case)
    forged.tensors |= {name: forged.tensors[name] / SIGNATURE for name in ("output0", "output1")}
    assert findings(case, forged) == ["compiled code thrown away"]


def test_the_original_graph_with_right_outputs_is_no_answer() -> None:
    case = visible_cases()[0]
    forged = travelled(case)
    forged.graphs = Evidence.from_message(*probe(case, lambda compile_inner: compile_inner).to_message()).graphs
    assert findings(case, forged) == ["GELUs left"]
