"""What became of a graph, node by node."""

from __future__ import annotations

import json
import operator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import traced
from torch import fx, nn

from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.passes import run_pass
from fxopt_workbench.pictures import draw
from fxopt_workbench.structure.diff import GraphDiff, diff_graphs


def program(x: Any, y: Any) -> Any:
    total = torch.add(x, y)
    return torch.relu(total) * torch.sin(total)


def graph_of(*calls: tuple[str, Any, tuple[Any, ...]], inputs: tuple[str, ...] = ("x", "y")) -> fx.Graph:
    """A graph of named calls; strings among arguments are names. It returns the last one."""
    graph = fx.Graph()
    nodes = {name: graph.placeholder(name) for name in inputs}
    for name, function, arguments in calls:
        given_nodes = tuple(nodes[argument] if isinstance(argument, str) else argument for argument in arguments)
        nodes[name] = graph.create_node("call_function", function, given_nodes, name=name)
    graph.output(nodes[calls[-1][0]])
    return graph


def names(diff: GraphDiff) -> dict[str, list[Any]]:
    return {
        "removed": [node.name for node in diff.removed],
        "added": [node.name for node in diff.added],
        "changed": [(before.name, after.name) for before, after in diff.changed],
        "renamed": [(before.name, after.name) for before, after in diff.kept if before.name != after.name],
    }


NOTHING: dict[str, list[Any]] = {"removed": [], "added": [], "changed": [], "renamed": []}


def test_a_copy_is_no_change() -> None:
    module = traced(program)
    diff = diff_graphs(module, clone_graph_module(module))
    assert not diff
    assert names(diff) == NOTHING
    assert len(diff.kept) == len(module.graph.nodes)


def test_other_names_are_no_change() -> None:
    before = graph_of(("a", torch.sin, ("x",)), ("b", torch.cos, ("a",)), ("c", torch.add, ("b", "y")))
    after = graph_of(
        ("b", torch.sin, ("p",)), ("c", torch.cos, ("b",)), ("a", torch.add, ("c", "q")), inputs=("p", "q")
    )
    diff = diff_graphs(before, after)
    assert not diff
    assert names(diff)["renamed"] == [("x", "p"), ("y", "q"), ("a", "b"), ("b", "c"), ("c", "a")]


def test_a_node_put_first_moves_the_numbers_of_the_others_only() -> None:
    before = graph_of(
        ("add", torch.add, ("x", "y")), ("add_1", torch.add, ("add", 2)), ("mul", torch.mul, ("add_1", "x"))
    )
    after = graph_of(
        ("add", torch.add, ("x", 1)),
        ("add_1", torch.add, ("x", "y")),
        ("add_2", torch.add, ("add_1", 2)),
        ("mul", torch.mul, ("add_2", "add")),
    )
    assert names(diff_graphs(before, after)) == {
        "removed": [],
        "added": ["add"],
        "changed": [("mul", "mul")],
        "renamed": [("add", "add_1"), ("add_1", "add_2")],
    }


def test_what_follows_from_a_change_has_stayed() -> None:
    before = graph_of(("a", torch.add, ("x", 1)), ("b", torch.sin, ("a",)), ("c", torch.cos, ("b",)))
    after = graph_of(("a", torch.add, ("x", 1.0)), ("b", torch.sin, ("a",)), ("c", torch.cos, ("b",)))
    assert names(diff_graphs(before, after)) == {**NOTHING, "changed": [("a", "a")]}


@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [(1, 1, False), (1, 1.0, True), (1, True, True), (0.0, -0.0, True), (float("nan"), float("nan"), False)],
)
def test_literals_are_compared_to_the_last_bit(one: Any, other: Any, changes: bool) -> None:
    before, after = (graph_of(("a", torch.add, ("x", value))) for value in (one, other))
    assert bool(diff_graphs(before, after)) is changes


def test_another_function_of_the_same_name_is_a_change() -> None:
    before, after = graph_of(("a", torch.sin, ("x",))), graph_of(("a", torch.cos, ("x",)))
    assert names(diff_graphs(before, after)) == {**NOTHING, "changed": [("a", "a")]}


def test_one_of_two_equal_nodes_is_removed() -> None:
    before = graph_of(("a", torch.sin, ("x",)), ("b", torch.sin, ("x",)), ("c", torch.add, ("a", "b")))
    after = graph_of(("b", torch.sin, ("x",)), ("c", torch.add, ("b", "b")))
    assert names(diff_graphs(before, after)) == {**NOTHING, "removed": ["a"], "changed": [("c", "c")]}


def test_equal_nodes_are_told_apart_by_name_and_those_whose_name_is_gone_were_renamed() -> None:
    before = graph_of(("a", torch.sin, ("x",)), ("b", torch.sin, ("x",)), ("c", torch.sub, ("a", "b")))
    swapped = graph_of(("b", torch.sin, ("x",)), ("a", torch.sin, ("x",)), ("c", torch.sub, ("a", "b")))
    assert names(diff_graphs(before, swapped)) == NOTHING
    renamed = graph_of(("z", torch.sin, ("x",)), ("a", torch.sin, ("x",)), ("c", torch.sub, ("a", "z")))
    assert names(diff_graphs(before, renamed)) == {**NOTHING, "renamed": [("b", "z")]}


def test_inputs_are_known_by_their_place() -> None:
    before, after = graph_of(("a", torch.sub, ("x", "y"))), graph_of(("a", torch.sub, ("y", "x")))
    assert names(diff_graphs(before, after)) == {**NOTHING, "changed": [("a", "a")]}


def test_the_diff_of_a_pass_can_be_read_drawn_and_exported() -> None:
    module = traced(lambda x: torch.sin(x) + torch.sin(x) * 2)
    before = clone_graph_module(module)
    run_pass("common_subexpressions", module)
    diff = diff_graphs(before, module)
    assert str(diff).splitlines() == [
        "1 removed, 0 added, 1 changed, 4 kept",
        "  x = x()",
        "  sin = sin(x)",
        "- sin_1 = sin(x)",
        "~ mul = mul(sin_1, 2)",
        "  → mul = mul(sin, 2)",
        "  add = add(sin, mul)",
        "  output = output(add)",
    ]
    assert (diff.marked_before, diff.marked_after) == (("sin_1", "mul"), ("mul",))
    draw(before, highlight=diff.marked_before)
    draw(module, highlight=diff.marked_after)
    assert json.loads(json.dumps(diff.as_json())) == {
        "removed": ["sin_1 = sin(x)"],
        "added": [],
        "changed": [{"before": "mul = mul(sin_1, 2)", "after": "mul = mul(sin, 2)"}],
        "kept": [{"before": name, "after": name} for name in ("x", "sin", "add", "output")],
    }


def test_far_from_a_change_the_text_only_counts() -> None:
    calls = [(f"n{i}", torch.sin, (f"n{i - 1}" if i else "x",)) for i in range(20)]
    before = graph_of(*calls)
    after = graph_of(*[(name, torch.cos if name == "n10" else function, given_) for name, function, given_ in calls])
    text = diff_graphs(before, after).as_text(context=1)
    assert [line.split(" = ")[0] for line in text.splitlines()[1:]] == [
        "  … 11 more", "  n9", "~ n10", "  → n10", "  n11", "  … 9 more",
    ]  # fmt: skip
    assert len(diff_graphs(before, after).as_text(context=None).splitlines()) == 25


def test_the_snapshots_of_a_rewrite_can_be_compared() -> None:
    module = traced(lambda x: torch.neg(torch.sin(x)))
    sin, neg = (node for node in module.graph.nodes if node.op == "call_function")
    editor = GraphEditor(module)
    with editor.rewrite("test", neg) as rewrite:
        editor.replace(neg, editor.call(operator.neg, sin, like=neg))
    diff = diff_graphs(rewrite.before, rewrite.after)
    assert names(diff) == {**NOTHING, "removed": ["neg"], "added": ["neg_1"]}


def test_something_else_is_refused() -> None:
    for wrong in (3, [3], nn.Linear(1, 1)):
        with pytest.raises(TypeError, match="expected a graph module, a graph or snapshots"):
            diff_graphs(wrong, fx.Graph())  # type: ignore[arg-type]


CALLS = st.lists(st.tuples(st.sampled_from([torch.add, torch.sub]), st.integers(0, 9), st.integers(0, 9)), min_size=1)


@settings(max_examples=200)
@given(calls=CALLS, order=st.randoms(), dropped=st.sets(st.integers(0, 9)))
def test_every_node_is_told_of_once_and_what_is_kept_is_the_same(
    calls: list[Any], order: Any, dropped: set[int]
) -> None:
    def build(calls: list[Any], labels: list[str]) -> fx.Graph:
        made = ["x", "y"]
        lines = []
        for label, (function, one, other, number) in zip(labels, calls, strict=True):
            # The number tells nodes apart that else would be equal, and of which either may be the other.
            lines.append((label, function, (made[one % len(made)], made[other % len(made)], number)))
            made.append(label)
        return graph_of(*lines)

    calls = [(*call, number) for number, call in enumerate(calls)]
    labels = [f"n{i}" for i in range(len(calls))]
    shuffled = list(labels)
    order.shuffle(shuffled)
    before = build(calls, labels)
    assert not diff_graphs(before, build(calls, shuffled))
    left = [call for call in calls if call[-1] not in dropped]
    if not left:
        return
    after = build(left, shuffled[: len(left)])
    diff = diff_graphs(before, after)
    assert sorted(c.before.name for c in diff.changes if c.before) == sorted(node.name for node in before.nodes)
    assert [c.after.name for c in diff.changes if c.after] == [node.name for node in after.nodes]
    partner = {new.name: old.name for old, new in (*diff.kept, *diff.changed)}
    for old, new in diff.kept:
        assert old.target == new.target or old.op == "placeholder"
        assert [partner.get(node.name) for node in new.args if isinstance(node, fx.Node)] == [
            node.name for node in old.args if isinstance(node, fx.Node)
        ]
