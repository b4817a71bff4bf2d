"""From a model to an optimised module and a report, also when a pass is wrong, raises or breaks the graph."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError
from fxopt_core.capture import capture as capture_model
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.optimizer import GraphOptimizer, VerificationError
from fxopt_core.optimizer.report import OptimizedGraph
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, PassResult, make_pass, pass_names, register_pass


class Model(nn.Module):
    """Has something for every exact pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("table", torch.arange(3.0), persistent=False)

    def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        torch.cos(x)
        hidden = torch.sin(self.linear(x)) + torch.sin(self.linear(x))
        return {"hidden": self.norm(hidden) * (self.table * 2 + 1), "scaled": hidden * scale}


class Branching(nn.Module):
    """Breaks Dynamo's graph, and cannot be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x) + torch.sin(x)
        if x.sum() > 0:
            x = x * 2
        return torch.cos(self.linear(x)) * torch.cos(self.linear(x))


X = torch.randn(4, 3)


@pytest.mark.parametrize("capture", ["auto", "export", "dynamo", "symbolic_trace"])
@pytest.mark.parametrize("training", [False, True])
def test_a_model_is_optimised_and_the_result_does_the_same(capture: str, training: bool) -> None:
    torch.manual_seed(0)
    model = Model().train(training)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = GraphOptimizer(model, (X,), capture=capture)
    result = optimizer.optimize("exact")
    report = result.report
    assert report.nodes_after < report.nodes_before
    assert {"dead_code", "common_subexpressions"} <= {rewrite.rule for rewrite in report.rewrites}
    assert report.method == ("export" if capture == "auto" else capture)
    assert optimizer.verify(more_inputs=[(torch.ones(4, 3),)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.training is training
    result.module(X)["hidden"].sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_auto_says_what_it_tried_and_takes_several_graphs_where_one_is_not_enough() -> None:
    optimizer = GraphOptimizer(Branching(), (X,))
    strategies = [attempt.strategy for attempt in optimizer.attempts]
    assert (strategies[0], strategies[-1], optimizer.captured.method) == ("export", "dynamo, partitions", "dynamo")
    assert "data-dependent" in optimizer.attempts[0].failure
    assert all(attempt.failure for attempt in optimizer.attempts[:-1])
    result = optimizer.optimize("exact")
    # Two graphs a call; the comparison also takes the other branch.
    assert len(result.report.graphs) >= 2
    assert optimizer.verify(more_inputs=[(-X,), (X.abs(),)])


def test_functions_and_keyword_inputs_work_too() -> None:
    result = GraphOptimizer(lambda x: torch.sin(x) * torch.sin(x), {"x": X}).optimize("exact")
    assert torch.equal(result.module(x=X), torch.sin(X) * torch.sin(X))
    assert len(result.report.rewrites) == 1


def test_the_report_names_everything_in_print_in_json_and_in_pictures() -> None:
    report = GraphOptimizer(Model().eval(), (X,)).optimize("exact").report
    document = json.loads(json.dumps(report.as_json()))
    assert document["nodes"] == {"before": report.nodes_before, "after": report.nodes_after}
    merged = next(rewrite for rewrite in document["rewrites"] if rewrite["rule"] == "common_subexpressions")
    assert "test_graph_optimizer.py" in merged["source"]
    assert "self.linear(x)" in merged["source"]
    assert merged["exactness"] == "bitwise"
    assert "sin" in " ".join(rewrite["before"][0] for rewrite in document["rewrites"])
    assert report.equivalence is not None
    assert f"the same on {len(report.equivalence.cases)} sets of inputs" in document["verified"]
    text = str(report)
    for word in ("dead_code", "common_subexpressions", "Refusals", "became", "Verified", "Caveat"):
        assert word in text
    from fxopt_workbench.results.optimizations import draw_changes

    ((before, after),) = draw_changes(report)
    assert "cos" in before.text
    assert "cos" not in after.text


class _Wrong(OptimizationPass):
    """Replaces sin by cos at every second place, which is wrong, and relu twice by relu once, which is right."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        analysis = Analysis()
        for node in editor.graph.nodes:
            if node.target in (torch.ops.aten.sin.default, torch.sin):
                analysis.opportunities.append(Opportunity(node, torch.cos))
            elif node.target in (torch.ops.aten.abs.default, torch.abs) and node.args[0].target is node.target:
                analysis.opportunities.append(Opportunity(node))
        return analysis

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        if opportunity.data is None:
            editor.replace(node, node.args[0])
        else:
            editor.replace(node, editor.call(opportunity.data, *node.args, like=node))


class _Raising(_Wrong):
    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        super().transform(editor, opportunity)
        raise RuntimeError("half way through")


class _Breaking(_Wrong):
    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        next(iter(opportunity.node.users)).append(opportunity.node)


class _Lying(_Wrong):
    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        raise AssertionError("the postcondition does not hold")


@pytest.fixture
def wrong() -> Iterator[dict[str, type[OptimizationPass]]]:
    from fxopt_core.passes import registry

    known = dict(registry._PASSES)
    yield {
        name: register_pass(name)(type(name, (class_,), {}))
        for name, class_ in (("wrong", _Wrong), ("raising", _Raising), ("breaking", _Breaking), ("lying", _Lying))
    }
    registry._PASSES.clear()
    registry._PASSES.update(known)


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.abs(torch.abs(torch.sin(x))) + torch.abs(torch.abs(x)) * 2


@pytest.mark.parametrize("capture", ["export", "dynamo"])
def test_a_wrong_rewrite_is_found_and_refused_and_the_right_ones_stay(wrong: Any, capture: str) -> None:
    optimizer = GraphOptimizer(program, (X,), capture=capture)
    report = optimizer.optimize(["wrong"]).report
    # Through Dynamo there is a graph for each way to record gradients.
    assert len(report.denied) == (3 if report.method == "dynamo" else 1)
    assert "wrong@sin" in report.denied[0]
    assert len(report.rewrites) == 2
    assert any("verification" in refusal.reason for _, refusal in report.refusals)
    assert optimizer.verify()


@pytest.mark.parametrize("name", ["raising", "breaking", "lying"])
def test_a_pass_that_fails_is_rolled_back_and_the_others_go_on(wrong: Any, name: str) -> None:
    optimizer = GraphOptimizer(lambda x: program(x) + program(x), (X,))
    report = optimizer.optimize([name, "common_subexpressions"]).report
    assert [failure.name for failure in report.failures] == [name]
    assert {rewrite.rule for rewrite in report.rewrites} == {"common_subexpressions"}
    assert optimizer.verify()


def test_passes_run_until_nothing_changes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        dead = x.sin()
        dead.cos()
        return x.exp() + x.exp()

    report = GraphOptimizer(function, (X,)).optimize(["common_subexpressions", "dead_code"]).report
    assert report.graphs[0].result.rounds == 2
    assert report.nodes_before - report.nodes_after == 3


def test_passes_of_ones_own_are_used_by_name_or_as_they_are(wrong: Any) -> None:
    assert "wrong" in pass_names()
    optimizer = GraphOptimizer(program, (X,))
    assert optimizer.optimize([make_pass("wrong")]).report.passes == ("wrong",)
    with pytest.raises(ValueError, match="there already is a pass or preset 'exact'"):
        register_pass("exact")(type("Exact", (_Wrong,), {}))
    with pytest.raises(ValueError, match="there already is a pass or preset 'wrong'"):
        register_pass("wrong")(type("Another", (_Wrong,), {}))
    with pytest.raises(TypeError, match="expected a subclass of OptimizationPass"):
        register_pass("no_pass")(dict)  # type: ignore[type-var]


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"no pass 'common_subexpresions'\. Did you mean 'common_subexpressions'"):
        GraphOptimizer(program, (X,)).optimize("common_subexpresions")
    with pytest.raises(ValueError, match=r"no capture method 'exprot'; the methods are .* Did you mean 'export'"):
        GraphOptimizer(program, (X,), capture="exprot")
    with pytest.raises(TypeError, match="expected a tuple, list or dictionary"):
        GraphOptimizer(program, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the pass 'constant_folding' cannot be made with the options"):
        make_pass("constant_folding", freez=True)
    with pytest.raises(RuntimeError, match="call optimize\\(\\) first"):
        GraphOptimizer(program, (X,)).verify()
    with pytest.raises(CaptureError) as caught:
        GraphOptimizer(Model(), (torch.randn(4, 5),))
    assert "the model itself fails on these example inputs" in str(caught.value)
    meta = Model().to("meta")
    with pytest.raises(ValueError, match="example_inputs are on cpu, and the model is on meta"):
        GraphOptimizer(meta, (X,))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (5, r"^the model is 5; expected an nn.Module or a function of tensors\.$"),
        (None, r"^the model is None; expected an nn.Module or a function"),
        ("bert", r"^the model is 'bert'; expected an nn.Module or a function"),
        (nn.Linear, r"^the model is the class Linear; expected a module\. Write Linear\(\.\.\.\)\.$"),
    ],
)
def test_what_is_no_model_is_named(model: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        GraphOptimizer(model, (X,))
    for method in ("auto", "export", "dynamo"):
        with pytest.raises(TypeError, match=told):
            capture_model(model, (X,), method)


def test_what_is_no_pass_is_named(wrong: Any) -> None:
    optimizer = GraphOptimizer(program, (X,))
    form = r"expected a preset, the name of a pass, or a list of names and passes\."
    given = wrong["wrong"]
    for passes, told in (
        (3, rf"^passes is 3; {form}$"),
        (None, rf"^passes is None; {form}$"),
        (given, rf"^passes is <class .*wrong'>; {form} Write \[wrong\(\)\]\.$"),
        (given(), rf"^passes is <.*wrong object at .*>; {form}$"),
        ([given], rf"^passes holds <class .*wrong'>; {form} Write \[wrong\(\)\]\.$"),
        (["dead_code", None], rf"^passes holds None; {form}$"),
    ):
        with pytest.raises(TypeError, match=told):
            optimizer.optimize(passes)


@pytest.mark.parametrize("answer", [None, [], [1]])
def test_what_analyze_must_return_is_said(answer: Any) -> None:
    class Answering(_Wrong):
        name = "answering"

        def analyze(self, editor: GraphEditor) -> Analysis:
            return answer

    ((name, reason),) = [
        (one.name, one.reason)
        for one in GraphOptimizer(program, (X,)).optimize([Answering(), "dead_code"]).report.failures
    ]
    assert (name, reason) == (
        "answering",
        f"PassError: answering: analyze returned {answer!r}; expected an Analysis. Return Analysis([...]).",
    )


@pytest.mark.parametrize("name", [None, "", " ", "a,b", "a b", "a/b", "a@b", "a\n", 7, _Wrong])
def test_a_pass_has_a_name_that_can_be_given(name: Any) -> None:
    known = pass_names()
    with pytest.raises(
        ValueError, match=r"^@register_pass is given the name .*; expected letters, digits, `_`, `-` and"
    ):
        register_pass(name)(type("Unnamed", (_Wrong,), {}))
    assert pass_names() == known


def test_a_result_that_differs_without_any_rewrite_is_an_error() -> None:
    optimizer = GraphOptimizer(program, (X,))
    graph_module = optimizer.captured.module
    assert graph_module is not None
    for node in graph_module.graph.nodes:
        if node.target is torch.ops.aten.mul.Tensor:
            node.args = (node.args[0], 3)
    at_fault = r"without any rewrite already differs .* capture by export is at fault"
    with pytest.raises(VerificationError, match=at_fault):
        optimizer.optimize("exact")


class _Follower(_Wrong):
    """Replaces sin by cos, which is wrong, at another place depending on whether a negation stands before it."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        sines = editor.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
        negated = [node.args[0] for node in sines if node.args[0].target is torch.ops.aten.neg.default]
        return Analysis([Opportunity(node, torch.ops.aten.cos.default) for node in negated or sines])


def test_where_one_rewrite_follows_from_another_only_the_wrong_one_is_blamed(wrong: Any) -> None:
    """To leave out the first brings out another one in place of the second, under another name."""
    follower = register_pass("follower")(_Follower)()
    optimizer = GraphOptimizer(lambda x: torch.sin(torch.neg(-x)), (X,), capture="export")
    report = optimizer.optimize(["algebraic_simplification", follower, "dead_code"]).report
    assert report.denied == ("follower@sin",)
    assert {rewrite.rule.partition("/")[0] for rewrite in report.rewrites} == {"algebraic_simplification", "dead_code"}
    assert optimizer.verify()


def test_the_report_looks_at_each_cost_once_however_many_rewrites_there_are() -> None:
    (graph,) = GraphOptimizer(lambda x: (x * 1 * 1 * 1 * 1) + (x - 0), (X,)).optimize("exact").report.graphs
    assert graph.costs is not None
    walks: list[object] = []

    class Walked(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            walks.append(self)
            return super().__iter__()

    sides = tuple(dataclasses.replace(side, nodes=Walked(side.nodes)) for side in graph.costs)
    counted = OptimizedGraph(graph.before, graph.result)
    counted.__dict__["costs"] = sides
    assert len(graph.result.rewrites) >= 5
    assert [counted.cost_of(one) for one in graph.result.rewrites] == [
        graph.cost_of(one) for one in graph.result.rewrites
    ]
    assert len(walks) == 2


def test_a_benchmark_runs_both_side_by_side() -> None:
    optimizer = GraphOptimizer(Model().eval(), (X,))
    optimizer.optimize("exact")
    report = optimizer.benchmark(warmup=1, repeats=3)
    assert [candidate.name for candidate in report.candidates] == ["model", "optimized"]


def test_the_costs_of_all_rewrites_add_up_to_the_difference_of_the_graphs() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 8)
    )
    report = GraphOptimizer(model.eval(), (torch.randn(2, 3, 8, 8),)).optimize("inference").report
    (graph,) = report.graphs
    assert graph.costs is not None
    before, after = (costs.total for costs in graph.costs)
    rewrites = report.as_json()["rewrites"]
    assert sum(rewrite["bytes"] for rewrite in rewrites) == after.bytes - before.bytes
    assert sum(rewrite["flops"] for rewrite in rewrites) == after.flops - before.flops == 0
    (folded,) = (rewrite for rewrite in rewrites if rewrite["rule"] == "conv_batchnorm_folding")
    # The normalisation read and wrote one map of 2 × 4 × 6 × 6; a bias of 4 is new.
    assert folded["bytes"] <= -2 * 4 * 2 * 4 * 6 * 6 + 4 * 4
    assert f"{folded['bytes']:+,d}" in str(report)


def test_where_the_capture_kept_no_shapes_no_cost_is_claimed() -> None:
    report = GraphOptimizer(lambda x: x.sin() * x.sin(), (X,), capture="symbolic_trace").optimize("exact").report
    assert report.rewrites
    assert report.graphs[0].costs is None
    assert all(rewrite["flops"] is None for rewrite in report.as_json()["rewrites"])
    assert "common_subexpressions" in str(report)


class WritesIntoWeights(OptimizationPass):
    """Wrong: doubles in place what the graph shares with others, by one of several ways."""

    name = "writes_into_weights"

    def __init__(self, how: str) -> None:
        self.how = how

    def analyze(self, editor: GraphEditor) -> Analysis:
        if self.how == "while it looks":
            self._double(editor)
        return Analysis([Opportunity(node) for node in editor.graph.nodes if node.op == "call_function"][:1])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        self._double(editor)
        if self.how == "and raises":
            raise ValueError("too late")

    def _double(self, editor: GraphEditor) -> None:
        module = editor.graph.owning_module
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.data.mul_(2)


@pytest.mark.parametrize("capture", ["auto", "symbolic_trace"])
@pytest.mark.parametrize("how", ["while it rewrites", "while it looks", "and raises"])
def test_a_pass_that_writes_into_weights_is_blamed_and_undone(how: str, capture: str) -> None:
    model = Model().eval()
    optimizer = GraphOptimizer(model, (X,), capture=capture)
    before = {name: tensor.clone() for name, tensor in optimizer.captured.module.state_dict().items()}
    for verify in (True, False):
        report = optimizer.optimize(["dead_code", WritesIntoWeights(how)], verify=verify).report
        (failure,) = report.failures
        assert failure.name == "writes_into_weights"
        assert "too late" in failure.reason or "it changes linear.bias, linear.weight" in failure.reason
    held = optimizer.captured.module.state_dict()
    assert all(torch.equal(tensor, before[name]) for name, tensor in held.items())
    later = optimizer.optimize("exact").module
    torch.testing.assert_close(later(X), model(X))
