"""What happens around the work of a pass."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import fx, nn

from fxopt_core import GraphOptimizer
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.passes import PassError, make_pass
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult


class Watching(OptimizationPass):
    """Notes whether the garbage collector is on, and may raise."""

    name = "watching"

    def __init__(self, error: type[Exception] | None) -> None:
        self.error = error
        self.seen: list[bool] = []

    def analyze(self, editor: GraphEditor) -> Analysis:
        self.seen.append(gc.isenabled())
        if self.error is not None:
            raise self.error
        return Analysis([Opportunity(next(iter(editor.graph.nodes)))])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        self.seen.append(gc.isenabled())


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("error", [None, KeyError])
def test_the_collector_pauses_while_a_pass_runs_and_is_then_as_it_was(on: bool, error: type[Exception] | None) -> None:
    watching = Watching(error)
    editor = GraphEditor(fx.symbolic_trace(torch.nn.ReLU()))
    assert gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        if error is None:
            watching.run(editor)
        else:
            with pytest.raises(error):
                watching.run(editor)
        after = gc.isenabled()
    finally:
        gc.enable()
    assert after == on
    assert watching.seen == [False] * (2 if error is None else 1)


class Knowledge:
    """What a pass found out about one place; it can be seen to go."""


class Remembering(OptimizationPass):
    """Finds every node, and counts of how many it still holds what it found there while it rewrites each."""

    name = "remembering"

    def __init__(self, kind: type[list[Opportunity]] | type[tuple[Opportunity, ...]]) -> None:
        self.kind = kind
        self.held = weakref.WeakSet[Knowledge]()
        self.seen: list[tuple[str, int]] = []

    def analyze(self, editor: GraphEditor) -> Analysis:
        found = [Opportunity(node, Knowledge()) for node in editor.graph.nodes]
        self.held.update(opportunity.data for opportunity in found)
        return Analysis(self.kind(found))  # type: ignore[arg-type]

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        self.seen.append((opportunity.node.name, len(self.held)))


@pytest.mark.parametrize("kind", [list, tuple])
def test_what_was_found_goes_place_by_place_in_order(kind: type[list[Opportunity]]) -> None:
    remembering = Remembering(kind)
    remembering.run(GraphEditor(fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))))
    assert remembering.seen == [("input_1", 4), ("_0", 3), ("_1", 2), ("output", 1)]


aten = torch.ops.aten
X = torch.linspace(-1, 1, 6).reshape(2, 3)
Change = Callable[[GraphEditor, fx.Node], None]


def _another_function(editor: GraphEditor, relu: fx.Node) -> None:
    relu.target = aten.neg.default


def _another_argument(editor: GraphEditor, relu: fx.Node) -> None:
    relu.args = (next(iter(editor.graph.nodes)),)


def _another_reader(editor: GraphEditor, relu: fx.Node) -> None:
    relu.replace_all_uses_with(relu.all_input_nodes[0])


def _another_node(editor: GraphEditor, relu: fx.Node) -> None:
    with editor.graph.inserting_after(relu):
        new = editor.graph.call_function(aten.neg.default, (relu,))
    relu.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)


def _another_order(editor: GraphEditor, relu: fx.Node) -> None:
    relu.append(relu.all_input_nodes[0])


CHANGES: list[Change] = [_another_function, _another_argument, _another_reader, _another_node, _another_order]


class PastTheEditor(OptimizationPass):
    """Changes the graph where nobody notes it: in `analyze`, in `transform` without the editor, or in `verify`."""

    name = "past_the_editor"

    def __init__(self, where: str, change: Change, *, found: bool = True) -> None:
        self.where, self.change, self.found = where, change, found

    def analyze(self, editor: GraphEditor) -> Analysis:
        relus = editor.graph.find_nodes(op="call_function", target=aten.relu.default)
        if self.where == "analyze" and relus:
            self.change(editor, relus[0])
        return Analysis([Opportunity(node) for node in relus] if self.found else [])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        if self.where == "transform":
            self.change(editor, opportunity.node)

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        relus = editor.graph.find_nodes(op="call_function", target=aten.relu.default)
        if self.where == "verify" and relus:
            self.change(editor, relus[0])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("where", "found", "who"),
    [
        ("analyze", True, "analyze"),
        ("analyze", False, "analyze"),
        ("transform", True, "transform or verify"),
        ("verify", True, "transform or verify"),
        ("verify", False, "transform or verify"),
    ],
)
def test_a_pass_that_changes_the_graph_past_the_editor_is_taken_out_and_named(
    change: Change, where: str, found: bool, who: str
) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Hardtanh()).eval()
    guilty = PastTheEditor(where, change, found=found)
    result = GraphOptimizer(model, (X,)).optimize([guilty, "dead_code"])
    ((name, reason),) = [(one.name, one.reason) for one in result.report.failures]
    assert name == "past_the_editor"
    assert f"PassError: past_the_editor: {who} changed the graph past the editor, first at " in reason
    assert "expected analyze only to look" in reason
    assert result.report.rewrites == []
    assert result.report.denied == ()
    # What the module computes is what its graph says.
    assert torch.equal(result.module(X), model(X))
    assert torch.equal(copy.deepcopy(result.module)(X), model(X))


def test_no_other_pass_is_blamed_for_what_analyze_changed() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU()).eval()
    for found in (True, False):
        passes = [PastTheEditor("analyze", _another_function, found=found), make_pass("algebraic_simplification")]
        report = GraphOptimizer(model, (X,)).optimize(passes).report
        assert [one.name for one in report.failures] == ["past_the_editor"]
        assert report.denied == ()
        assert [one.node for one in report.rewrites] == ["relu_1"]


def test_rewrites_that_analyze_makes_through_the_editor_are_found_out_too() -> None:
    def by_the_editor(editor: GraphEditor, relu: fx.Node) -> None:
        with editor.rewrite("hidden", relu):
            editor.change(relu, args=relu.args, function=aten.neg.default)

    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()
    for found in (True, False):
        guilty = PastTheEditor("analyze", by_the_editor, found=found)
        report = GraphOptimizer(model, (X,)).optimize([guilty]).report
        assert [one.name for one in report.failures] == ["past_the_editor"]


def test_the_error_names_the_place() -> None:
    graph_module = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))

    class Sneaky(OptimizationPass):
        name = "sneaky"

        def analyze(self, editor: GraphEditor) -> Analysis:
            list(editor.graph.nodes)[2].target = "0"
            return Analysis()

        def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
            raise AssertionError

    with pytest.raises(PassError, match=r"^sneaky: analyze changed the graph past the editor, first at _1; expected"):
        Sneaky().run(GraphEditor(graph_module, watched=True))


class Nothing(OptimizationPass):
    """Finds every node, and leaves each as it is; the last also by an argument that is set to what it was."""

    name = "nothing"

    def analyze(self, editor: GraphEditor) -> Analysis:
        return Analysis([Opportunity(node) for node in editor.graph.nodes])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        opportunity.node.args = opportunity.node.args


class SecondRelu(OptimizationPass):
    """relu(relu(x)) becomes relu(x); at other nodes it does nothing."""

    name = "second_relu"

    def analyze(self, editor: GraphEditor) -> Analysis:
        return Analysis([Opportunity(node) for node in editor.graph.nodes])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        if node.target is aten.relu.default and node.all_input_nodes[0].target is aten.relu.default:
            editor.replace(node, node.all_input_nodes[0])


def test_a_rewrite_that_does_nothing_is_none() -> None:
    model = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.ReLU())
    report = GraphOptimizer(model, (X,)).optimize([Nothing()]).report
    assert (report.rewrites, report.failures, report.denied) == ([], [], ())
    assert [graph.result.rounds for graph in report.graphs] == [1]
    report = GraphOptimizer(model, (X,)).optimize([Nothing(), SecondRelu(), Nothing()]).report
    assert [one.key for one in report.rewrites] == ["second_relu@relu_1", "second_relu@relu_2"]
    assert report.failures == []


class Negates(SecondRelu):
    """relu(relu(x)) becomes neg(x), which is wrong, and other nodes stay."""

    name = "negates"

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        if node.target is aten.relu.default and node.all_input_nodes[0].target is aten.relu.default:
            editor.replace(node, editor.call(aten.neg.default, node.all_input_nodes[0], like=node))


def test_bisection_counts_only_what_changes_the_graph() -> None:
    model = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.Tanh(), nn.Tanh())
    report = GraphOptimizer(model, (X,)).optimize([Nothing(), Negates(), Nothing(), "dead_code"]).report
    assert report.denied == ("negates@relu_1",)
    assert report.rewrites == []


class ReadsACopy(SecondRelu):
    """What reads a relu reads a clone of it: the readers are redirected by hand, as the editor's errors advise."""

    name = "reads_a_copy"

    def analyze(self, editor: GraphEditor) -> Analysis:
        relus = editor.graph.find_nodes(op="call_function", target=aten.relu.default)
        return Analysis(
            [Opportunity(node) for node in relus if aten.clone.default not in {u.target for u in node.users}]
        )

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        readers = list(node.users)
        copied = editor.insert("call_function", aten.clone.default, (node,), like=node, before=node.next)
        for reader in readers:
            reader.replace_input_with(node, copied)


def test_readers_may_be_redirected_by_hand_within_a_rewrite() -> None:
    report = GraphOptimizer(nn.Sequential(nn.ReLU(), nn.Tanh()), (X,)).optimize([ReadsACopy(), "dead_code"]).report
    assert [one.key for one in report.rewrites] == ["reads_a_copy@relu"]
    assert (report.failures, report.denied) == ([], ())


def test_an_editor_that_is_not_watched_logs_all_that_was_tried() -> None:
    graph_module = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.ReLU()))
    editor = GraphEditor(graph_module)
    assert len(Nothing().run(editor).rewrites) == len(graph_module.graph.nodes)
    assert PastTheEditor("analyze", _another_function).run(editor).rewrites == []


def test_what_was_changed_by_hand_within_a_rewrite_is_compiled() -> None:
    graph_module = fx.symbolic_trace(lambda x: torch.sin(x))
    editor = GraphEditor(graph_module, watched=True)
    (sin,) = editor.graph.find_nodes(op="call_function", target=torch.sin)
    with editor.rewrite("by hand", sin):
        sin.target = torch.cos
    editor.finish()
    assert torch.equal(graph_module(X), X.cos())
