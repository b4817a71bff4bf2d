"""A program hidden in a graph within the graph: every judge counts it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from autograder.course.judges import judge_case, judge_module, visible_cases
from autograder.course.tasks import all_tasks, find_task
from autograder.exchange.evidence import Evidence
from autograder.exchange.graph_form import decode, encode
from autograder.exchange.graph_form.nodes import all_nodes, own_nodes
from autograder.exercises.day2.programs import build, rewrite_evidence
from autograder.exercises.graph_comparison import operations

EXERCISES = Path(judge_module(all_tasks()[0]).__file__ or "").parents[2]


def hidden(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The same program, all of it in a graph that the outer one calls."""
    graph = fx.Graph()
    inputs = [graph.placeholder(str(node.target)) for node in graph_module.graph.find_nodes(op="placeholder")]
    graph.output(graph.call_module("inner", tuple(inputs)))
    return fx.GraphModule({"inner": graph_module}, graph)


@pytest.mark.parametrize(
    ("task", "case", "misconception"),
    [
        ("merge_duplicates", "the same twice", "merged too little"),
        ("remove_dead_code", "a dead chain", "graph within"),
        ("fold_constants", "a chain of three operations", "folded too little"),
        ("fuse_linear_relu", "two layers, two forms of ReLU", "froze the weights"),
    ],
)
def test_a_hidden_program_does_not_pass(task: str, case: str, misconception: str) -> None:
    found = find_task(task)
    told = {}
    for one in visible_cases(found):
        evidence = rewrite_evidence(one, hidden)
        told[one.name] = [item.misconception for item in judge_case(found, one, evidence, hidden=False).findings]
    assert told[case] == [misconception]


def test_operations_are_counted_each_time_that_they_are_used() -> None:
    case = visible_cases(find_task("merge_duplicates"))[0]
    program = build(case)
    once = operations(program)
    assert once > 0
    assert operations(hidden(program)) == once
    assert operations(decode(encode(hidden(hidden(program))))) == once
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_module("inner", (x,))
    graph.output((first, graph.call_module("inner", (x,))))
    assert operations(fx.GraphModule({"inner": program}, graph)) == 2 * once


def test_nodes_of_graphs_that_an_operator_takes_are_nodes() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, lambda x: torch.cos(torch.cos(x)), (x,))

    program = torch.export.export(Branch(), (torch.ones(3),)).graph_module
    names = [str(node.target) for node in all_nodes(decode(encode(program)))]
    assert names.count("aten.cos.default") == 2
    assert names.count("aten.sin.default") == 1
    assert "aten.cos.default" not in [str(node.target) for node in own_nodes(program)]


LOOKING = {"nodes", "find_nodes", "_root"}
"""Attributes of a graph through which its own nodes alone are seen."""

RUNNING = {"Interpreter", "Transformer", "ShapeProp", "FakeTensorProp", "make_fx"}
"""Names through which a graph is executed."""

OWN_GRAPHS = {
    "day0/run_graph/judge.py": "runs the case's own graph; no graph comes from the learner",
    "capstone/examples.py": "gives examples to the case's own graph",
    "day2/fold_constants/oracle.py": "computes the constants of the case's own graph",
    "day2/fuse_linear_relu/judge.py": "learns the dimensions in the case's own graph",
    "day2/merge_duplicates/oracle.py": "merges in the case's own graph",
    "seen_effects.py": "watches a run of the case's own graph",
    "u7/own_exporter/judge.py": "computes the case's own program; the learner's is ONNX, in a process of its own",
}
"""Files that may execute a graph, since it is ours."""

OWN_NODES = {
    # A list of tuples that the judge has read; no graph of torch.fx.
    "u1/static_graph/judge.py": {"self.nodes"},
    "day0/run_graph/judge.py": {"self.graph.nodes"},
    "attention.py": {"graph.nodes"},
    "day4/find_attention/judge.py": {"graph.nodes"},
    "day4/fuse_attention/judge.py": {"original.graph.nodes"},
    "day2/fold_constants/oracle.py": {
        "graph_module.graph.nodes",
        "original_of(case).graph_module.graph.nodes",
        "copied.graph.nodes",
        "solved(case).graph.nodes",
    },
    "day2/fuse_linear_relu/judge.py": {"graph_module.graph.nodes", "known.graph_module.graph.nodes"},
    "day2/merge_duplicates/oracle.py": {
        "graph_module.graph.nodes",
        "copied.graph.nodes",
        "self.nodes",
    },
    "seen_effects.py": {"graph_module.graph.nodes", "copied.graph.nodes"},
}
"""The looks at the nodes of the case's own graph, which has none within: whatever else looks so is a fault."""


def judging_files() -> list[Path]:
    """Judges, and what they share."""
    left_out = {"wrong", "right"}
    found = [path for path in EXERCISES.rglob("*.py") if not left_out & set(path.parts)]
    names = {"judge.py", "oracle.py", "cases.py"}
    return sorted(path for path in found if path.name in names or path.parent.name == "exercises")


def used(path: Path) -> set[str]:
    """Names of attributes of anything but the result of a call (which is an analysis, say, that also has nodes)."""
    tree = ast.parse(path.read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in found if not isinstance(node.value, ast.Call)}


def test_every_judge_looks_at_nodes_through_one_function() -> None:
    files = judging_files()
    assert len(files) > 30
    looks: dict[str, set[str]] = {}
    for path in files:
        found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        # The result of a call is an analysis, say, that also has nodes.
        direct = {ast.unparse(node) for node in found if node.attr in LOOKING and not isinstance(node.value, ast.Call)}
        if direct:
            looks[str(path.relative_to(EXERCISES))] = direct
    assert looks == OWN_NODES


def test_no_judge_executes_graphs() -> None:
    direct = {
        str(path.relative_to(EXERCISES)): sorted(used(path) & RUNNING)
        for path in judging_files()
        if used(path) & RUNNING
    }
    assert {name: found for name, found in direct.items() if name not in OWN_GRAPHS} == {}


def test_a_capstone_may_not_hide_its_graph() -> None:
    judge = import_module("autograder.exercises.capstone.own_pass.judge")
    programs = import_module("autograder.exercises.capstone.own_pass.programs")
    case = programs.random_cases("nested")[0]
    program = encode(hidden(decode(programs.encoded(case))))
    values: dict[str, Any] = {"passes": ["x"], "tolerance": 0.0, "keeps_gradients": True, "changed": True}
    evidence = Evidence(values, {}, {"after": program, "again": program})
    assert [name for name, *_ in judge.judge(case, evidence)] == ["graph within a graph"]
