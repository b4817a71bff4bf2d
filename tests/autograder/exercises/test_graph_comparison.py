"""Whether two graphs do the same: each thing that a caller can observe is looked at."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import fx, nn

from autograder.course.judges import hidden_cases, judge_module
from autograder.course.task import Task
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.evidence import Evidence
from autograder.exchange.graph_form import decode
from autograder.exercises.day2.programs import build, inputs_of, make_module, program, rewrite_evidence, trace
from autograder.exercises.graph_comparison import changed_modules, difference, stale, unusable

TABLE = "torch.tensor([[1.0, 2.0, 3.0, 4.0]])"

DIFFERENT = {
    "does not run": ("return x * 2", "return x @ x", {}),
    "structure": ("return x, x", "return x", {}),
    "values": ("return x * 2", "return x * 3", {}),
    "values, by dtype": ("return x * 2", "return (x * 2).double()", {}),
    "values, when it is called again": ("return self.w * 2", "return self.v", {"w": TABLE, "v": f"{TABLE} * 2"}),
    "inputs": ("x.add_(1.0)\nreturn x * 2", "return (x + 1.0) * 2", {}),
    "state": ("self.w.add_(1.0)\nreturn x * 2", "return x * 2", {"w": TABLE}),
    "draws": ("torch.rand_like(x)\nreturn x * 2", "return x * 2", {}),
    "sharing": ("return torch.exp(x), torch.exp(x)", "a = torch.exp(x)\nreturn a, a", {}),
}


def compare(body: str, other: str, state: dict[str, str]) -> str | None:
    case = program("original", body, state=state)
    return difference(build(case), build(program("other", other, state=state)), inputs_of(case, 1))


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_found_and_named(name: str) -> None:
    body, other, state = DIFFERENT[name]
    assert compare(body, other, state) == name.split(",")[0]


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_graph_does_what_it_does(name: str) -> None:
    body, _, state = DIFFERENT[name]
    assert compare(body, body, state) is None


def test_a_comparison_leaves_the_graphs_and_the_process_as_they_were() -> None:
    case = program("writes", "self.w.add_(1.0)\nreturn torch.rand_like(x) * self.w", state={"w": TABLE})
    graph_module, state = build(case), torch.get_rng_state()
    assert difference(graph_module, build(case), inputs_of(case, 1)) is None
    assert torch.equal(graph_module.w, torch.tensor([[1.0, 2.0, 3.0, 4.0]]))  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), state)


def relu_becomes(target: Callable[..., Any], *, recompile: bool) -> Callable[[fx.GraphModule], fx.GraphModule]:
    def rewrite(graph_module: fx.GraphModule) -> fx.GraphModule:
        for node in graph_module.graph.nodes:
            if node.target is torch.relu:
                node.target = target
        if recompile:
            graph_module.recompile()
        return graph_module

    return rewrite


def found(function: Callable[[fx.GraphModule], Any]) -> str | None:
    evidence = rewrite_evidence(program("relu", "return torch.relu(x) + 1"), function)
    evidence = Evidence.from_message(*evidence.to_message())
    problem = unusable(evidence) or stale(evidence, decode(evidence.graphs["graph"]))
    return problem[0] if problem else None


def grows(graph_module: fx.GraphModule) -> fx.GraphModule:
    output = graph_module.graph.output_node()
    with graph_module.graph.inserting_before(output):
        output.args = (graph_module.graph.call_function(torch.neg, (output.args[0],)),)
    graph_module.recompile()
    return graph_module


def reads_too_early(graph_module: fx.GraphModule) -> fx.GraphModule:
    first = next(node for node in graph_module.graph.nodes if node.op != "placeholder")
    first.append(first.all_input_nodes[0])
    return graph_module


def test_what_is_wrong_with_a_rewrite_is_named() -> None:
    assert found(relu_becomes(torch.tanh, recompile=True)) is None
    # As many operations as before: only their names tell that the code is the old one.
    assert found(relu_becomes(torch.tanh, recompile=False)) == "forgot recompile"
    assert found(grows) == "not idempotent"
    assert found(reads_too_early) == "malformed graph"
    assert found(lambda graph_module: graph_module.graph) == "returned no graph module"


def test_a_traced_program_does_what_the_module_does() -> None:
    state = {"layer": "nn.Linear(4, 3)", "w": TABLE}
    case = program("both", "h = self.layer(x + self.w)\nh.relu_()\nreturn h", state=state, seed=5)
    inputs = inputs_of(case, 2)
    torch.testing.assert_close(trace(make_module(case))(*inputs), make_module(case)(*inputs))


REWRITES = [task for task in tasks_of_notebook("ex_02_fx_graph_manipulation") if "COMMON" in vars(judge_module(task))]


@pytest.mark.parametrize("task", REWRITES, ids=lambda task: task.name)
def test_the_programs_of_hidden_cases_run_whatever_the_seed(task: Task) -> None:
    assert REWRITES
    for seed in range(2):  # most cases are the same for every seed
        for case in judge_module(task).hidden_cases(Random(seed)):
            assert difference(build(case), build(case), inputs_of(case, 11), absolute=1e-6) is None, case
    assert len(hidden_cases(task, "any")) >= 3


def test_a_parameter_that_is_frozen_or_trained_again_is_a_change_of_the_model() -> None:
    original, same = fx.symbolic_trace(nn.Linear(2, 2)), fx.symbolic_trace(nn.Linear(2, 2))
    assert changed_modules(original, same) is None
    same.get_parameter("bias").requires_grad_(False)
    for one, other in ((original, same), (same, original)):
        assert "bias" in str(changed_modules(one, other))
