"""Patterns: what they meet, what they must not replace, and what they say about it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import aten, graph_module, observe, operations, traced
from torch import fx, nn
from torch.nn import functional

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.matching import GraphIndex, Match, Matcher
from fxopt_core.graphs.patterns import PatternError, module, named, pattern
from fxopt_core.passes import GraphEditor, PassError, PassResult, disabled
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_workbench.results.source_lines import source_line


def matches(function: Callable[..., Any], graph: fx.Graph) -> list[Match]:
    """The first way in which the pattern matches, from each node."""
    matcher = Matcher(pattern(function), GraphIndex(graph, Storages(graph)))
    return [match for node in matcher.starts for match in itertools.islice(matcher.matches(node), 1)]


def met(function: Callable[..., Any], program: Callable[..., Any]) -> list[dict[str, Any]]:
    """What the wildcards meet in the traced program, nodes by name."""
    return [
        {name: str(value) if isinstance(value := match[name], fx.Node) else value for name in match.pattern.wildcards}
        for match in matches(function, traced(program).graph)
    ]


def apply(graph_module: fx.GraphModule, *rules: RewriteRule) -> PassResult:
    class Rules(PatternPass):
        name = "rules"

    Rules.rules = rules
    editor = GraphEditor(graph_module)
    result = Rules().run(editor)
    editor.finish()
    return result


def reasons(result: PassResult) -> str:
    return "; ".join(refusal.reason for refusal in result.refusals)


# What matches


@pytest.mark.parametrize(
    ("wanted", "program"),
    [
        (lambda x: torch.softmax(x, dim=-1), lambda x: torch.softmax(x, -1)),
        (lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, dim=-1, dtype=None)),
        (lambda x: torch.softmax(x, -1), lambda x: torch.softmax(input=x, dim=-1)),
        (lambda x: functional.relu(x), lambda x: functional.relu(x, inplace=False)),
        (lambda x: functional.softmax(x, dim=1), lambda x: functional.softmax(x, 1)),
        (lambda x: x.transpose(0, 1), lambda x: x.transpose(dim0=0, dim1=1)),
        (lambda x, y: aten.add.Tensor(x, y), lambda x, y: aten.add.Tensor(x, y, alpha=1)),
        (lambda x, y: functional.linear(x, y), lambda x, y: functional.linear(input=x, weight=y, bias=None)),
        (lambda x: aten.view.default(x, [2, 3]), lambda x: aten.view.default(x, (2, 3))),
        (lambda x, y: torch.cat([x, y], 1), lambda x, y: torch.cat((x, y), dim=1)),
        (lambda x: x[:, 0], lambda x: x[:, 0]),
    ],
)
def test_by_name_by_position_and_at_the_default_is_the_same(wanted: Any, program: Any) -> None:
    assert len(met(wanted, program)) == 1


@pytest.mark.parametrize(
    ("wanted", "program"),
    [
        (lambda x: x * 1, lambda x: x * 1.0),
        (lambda x: x * 1, lambda x: x * True),
        (lambda x: x + 0.0, lambda x: x + -0.0),
        (lambda x: torch.softmax(x, dim=-1), lambda x: torch.softmax(x, -2)),
        (lambda x: torch.softmax(x, dim=-1), lambda x: torch.softmax(x, -1, dtype=torch.float64)),
        (lambda x, y: torch.add(x, y), lambda x, y: torch.add(x, y, alpha=2)),
        (lambda x, y: torch.sub(x, y), lambda x, y: torch.add(x, y)),
        (lambda x: x[0, 1], lambda x: x[[0, 1]]),
        (lambda x: x[0:2], lambda x: x[0:3]),
        (lambda x, y: torch.cat([x, y]), lambda x, y: torch.cat([x, y, x])),
    ],
)
def test_what_differs_in_one_argument_does_not_match(wanted: Any, program: Any) -> None:
    assert met(wanted, program) == []


def test_nan_is_the_same_as_itself() -> None:
    assert len(met(lambda x: x + float("nan"), lambda x: x + float("nan"))) == 1


def test_a_wildcard_meets_a_node_or_a_literal_or_a_list() -> None:
    assert met(lambda x, y: torch.mul(x, y), lambda x: torch.mul(x, 2.5)) == [{"x": "x", "y": 2.5}]
    assert met(lambda x, y: torch.mul(x, y), lambda x, z: torch.mul(x, z)) == [{"x": "x", "y": "z"}]
    assert met(lambda x, size: torch.reshape(x, size), lambda x: torch.reshape(x, (2, 3))) == [
        {"x": "x", "size": (2, 3)}
    ]


def test_a_wildcard_used_twice_meets_the_same_value_twice() -> None:
    def square_sum(x: Any) -> Any:
        return torch.sub(torch.sin(x), x)

    assert met(square_sum, lambda a, b: torch.sub(torch.sin(a), a) / torch.sub(torch.sin(a), b)) == [{"x": "a"}]

    def scaled(x: Any, s: Any) -> Any:
        return torch.div(torch.mul(x, s), s)

    assert met(scaled, lambda x: torch.div(torch.mul(x, 2), 2)) == [{"x": "x", "s": 2}]
    assert met(scaled, lambda x: torch.div(torch.mul(x, 2), 2.0)) == []
    assert met(scaled, lambda x: torch.div(torch.mul(x, 0.0), -0.0)) == []


def test_two_wildcards_may_meet_one_value() -> None:
    assert met(lambda x, y: torch.relu(x + y), lambda a: torch.relu(a + a)) == [{"x": "a", "y": "a"}]


def test_two_calls_of_a_pattern_are_two_nodes() -> None:
    def program(a: Any) -> Any:
        r = torch.relu(a)
        return torch.mul(r, r)

    assert met(lambda x, y: torch.mul(torch.relu(x), torch.relu(y)), program) == []
    assert met(lambda x: torch.mul(r := torch.relu(x), r), program) == [{"x": "a"}]


@pytest.mark.parametrize(
    "function",
    [
        torch.add, torch.mul, torch.maximum, torch.minimum, torch.eq, torch.ne, torch.logical_and, torch.logical_or,
        torch.logical_xor, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, operator.add, operator.mul,
        operator.and_, operator.or_, operator.xor, operator.eq, operator.ne, aten.add.Tensor, aten.mul.Tensor,
        aten.maximum.default, aten.eq.Tensor, aten.logical_and.default, aten.bitwise_xor.Tensor,
        lambda x, y: x.add(y), lambda x, y: x.mul(y), lambda x, y: x.logical_or(y),
    ],
)  # fmt: skip
def test_commutative_functions_match_both_ways(function: Any) -> None:
    def wanted(x: Any, y: Any) -> Any:
        return function(torch.neg(x), y)

    assert met(wanted, lambda a, b: function(torch.neg(a), b)) == [{"x": "a", "y": "b"}]
    assert met(wanted, lambda a, b: function(b, torch.neg(a))) == [{"x": "a", "y": "b"}]


@pytest.mark.parametrize(
    "function",
    [
        torch.sub, torch.div, operator.sub, operator.matmul, operator.lt, aten.sub.Tensor, torch.pow,
        lambda x, y: torch.add(x, y, alpha=2), lambda x, y: aten.add.Tensor(x, y, alpha=2), lambda x, y: x.sub(y),
    ],
)  # fmt: skip
def test_other_functions_match_one_way_only(function: Any) -> None:
    def wanted(x: Any, y: Any) -> Any:
        return function(torch.neg(x), y)

    assert len(met(wanted, lambda a, b: function(torch.neg(a), b))) == 1
    assert met(wanted, lambda a, b: function(b, torch.neg(a))) == []


def test_joining_tuples_is_not_commutative() -> None:
    def wanted(x: Any, y: Any) -> Any:
        return x + y.size()

    assert len(met(wanted, lambda a: operator.add((3,), a.size()))) == 1
    assert met(wanted, lambda a: operator.add(a.size(), (3,))) == []


def test_the_order_of_nested_commutative_calls_is_searched() -> None:
    def wanted(a: Any, b: Any, c: Any) -> Any:
        return torch.add(torch.mul(torch.sin(a), b), torch.mul(torch.cos(a), c))

    def program(one: bool, other: bool, both: bool) -> Callable[..., Any]:
        def forward(a: Any, b: Any, c: Any) -> Any:
            left = torch.mul(b, torch.sin(a)) if one else torch.mul(torch.sin(a), b)
            right = torch.mul(c, torch.cos(a)) if other else torch.mul(torch.cos(a), c)
            return torch.add(right, left) if both else torch.add(left, right)

        return forward

    for flips in itertools.product((False, True), repeat=3):
        assert met(wanted, program(*flips)) == [{"a": "a", "b": "b", "c": "c"}]


def test_modules_match_by_class() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.norm = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.norm(self.two(self.one(input=x))))

    def wanted(x: Any) -> Any:
        return module(nn.BatchNorm2d)(named(module(nn.Conv2d)(x), "conv"))

    model = Model()
    graph = fx.symbolic_trace(model).graph
    (match,) = matches(wanted, graph)
    assert match["conv"].target == "two"
    assert match.module("conv") is graph.owning_module.two  # type: ignore[union-attr]
    assert len(matches(lambda x: module(nn.Conv2d)(x), graph)) == 2
    assert matches(lambda x: module(nn.Conv1d)(x), graph) == []
    assert matches(lambda x: module(nn.modules.conv._ConvNd)(x), graph) == []


def test_patterns_with_several_outputs() -> None:
    def wanted(x: Any, a: Any, b: Any) -> Any:
        return functional.linear(x, a), functional.linear(x, b)

    def program(x: Any, a: Any, b: Any, c: Any, y: Any) -> Any:
        return functional.linear(x, a), functional.linear(y, b), functional.linear(x, c)

    (first, second) = met(wanted, program)
    assert first == {"x": "x", "a": "a", "b": "c"}
    assert second == {"x": "x", "a": "c", "b": "a"}


def test_an_output_may_be_used_by_another() -> None:
    def wanted(x: Any) -> Any:
        y = torch.relu(x)
        return y, torch.neg(y)

    (match,) = matches(wanted, traced(lambda a: (r := torch.relu(a), torch.neg(r))).graph)
    assert [node.name for node in match.outputs] == ["relu", "neg"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: (torch.sin(x), torch.cos(y)), "no value in common"),
        (lambda x, y: torch.sin(x), "not needed"),
        (lambda x: x, "returns a wildcard"),
        (lambda x: (torch.sin(x), x), "returns a wildcard"),
        (lambda x: (y := torch.sin(x), y), "one value twice"),
        (lambda x: torch.sin(x) + torch.ones(2), "expected calls of its parameters"),
        (lambda x: torch.sin(x) if x > 0 else x, "cannot be traced"),
        (lambda *x: torch.sin(x[0]), "expected calls of its parameters"),
        (lambda x: 3, "returns 3"),
        (lambda x: named(torch.sin(x), "x"), "one name"),
        (lambda x: named(3, "x"), "named"),
        (nn.ReLU(), "is a module"),
    ],
)
def test_a_function_that_is_no_pattern_is_refused(function: Any, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        pattern(function)


# The nearest miss


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda q, k, v: torch.softmax(q @ k, 1) @ v, "argument 1 of softmax is 1, and the pattern has -1"),
        (lambda q, k, v: torch.softmax(q @ k, -1, torch.float64) @ v, "'dtype' of softmax is torch.float64"),
        (lambda q, k, v: torch.softmax(q * k, -1) @ (v @ k), "nothing that uses matmul calls softmax"),
        (lambda q, k, v: torch.exp(q @ k) @ v, "nothing that uses matmul calls softmax"),
        (lambda q, k, v: torch.softmax(q @ k, -1), "nothing that uses softmax calls matmul"),
        (lambda q, k, v: torch.softmax(q @ k, -1) + v, "nothing that uses softmax calls matmul"),
    ],
)
def test_the_nearest_miss_says_what_differs(program: Any, said: str) -> None:
    graph = traced(program).graph
    matcher = Matcher(pattern(lambda q, k, v: torch.softmax(q @ k, -1) @ v), GraphIndex(graph, Storages(graph)))
    assert [match for node in matcher.starts for match in matcher.matches(node)] == []
    miss = matcher.nearest_miss()
    assert miss is not None
    assert said in miss.reason


def test_a_pass_reports_the_nearest_miss_of_a_rule_that_matches_nowhere() -> None:
    rule = RewriteRule("double", lambda x: torch.neg(torch.exp(x) + 1.0), lambda x: torch.sub(-1.0, torch.exp(x)))
    result = apply(traced(lambda x: torch.neg(torch.exp(x) + 2.0)), rule)
    assert not result.changed
    assert (
        reasons(result)
        == "double: 3 of 3 calls of the pattern are here, but argument 1 of add is 2.0, and the pattern has 1.0"
    )


# Commutative matching against brute force

FUNCTIONS: dict[str, tuple[Any, int]] = {
    "add": (operator.add, 2),
    "mul": (operator.mul, 2),
    "sub": (operator.sub, 2),
    "neg": (operator.neg, 1),
}

Tree = Any
"""A name, a literal, or a function's name followed by trees."""


def trees(leaves: tuple[Any, ...], most: int) -> st.SearchStrategy[Tree]:
    return st.recursive(
        st.sampled_from(leaves),
        lambda children: st.sampled_from(sorted(FUNCTIONS)).flatmap(
            lambda name: st.tuples(st.just(name), *[children] * FUNCTIONS[name][1])
        ),
        max_leaves=most,
    ).filter(lambda tree: isinstance(tree, tuple) and bool(variables(tree)))


def variables(tree: Tree) -> set[str]:
    if isinstance(tree, tuple):
        return set().union(*map(variables, tree[1:]))
    return {tree} if isinstance(tree, str) else set()


def evaluate(tree: Tree, values: dict[str, Any]) -> Any:
    """With proxies this traces; what holds no wildcard is computed."""
    if isinstance(tree, tuple):
        return FUNCTIONS[tree[0]][0](*[evaluate(part, values) for part in tree[1:]])
    return values[tree] if isinstance(tree, str) else tree


def emit(tree: Tree, graph: fx.Graph, made: dict[str, Any], share: bool) -> Any:
    """The tree as nodes; equal parts are one node if `share`."""
    if not isinstance(tree, tuple):
        return made[tree] if isinstance(tree, str) else tree
    if share and repr(tree) in made:
        return made[repr(tree)]
    arguments = tuple(emit(part, graph, made, share) for part in tree[1:])
    made[repr(tree)] = graph.call_function(FUNCTIONS[tree[0]][0], arguments)
    return made[repr(tree)]


Way = tuple[dict[str, Any], tuple[fx.Node, ...]]
"""What the wildcards are, and which nodes the calls are."""


def unify(wanted: Tree, found: Any, way: Way) -> Iterator[Way]:
    """Every way in which a tree matches a value of a graph, by trying everything."""
    values, nodes = way
    if isinstance(wanted, str):
        if wanted not in values:
            yield {**values, wanted: found}, nodes
        elif repr(values[wanted]) == repr(found):
            yield way
    elif isinstance(wanted, tuple):
        function, _ = FUNCTIONS[wanted[0]]
        if isinstance(found, fx.Node) and found.target is function and found not in nodes:
            orders = [found.args]
            if wanted[0] in ("add", "mul"):
                orders.append(found.args[::-1])
            for order in orders:
                ways: list[Way] = [(values, (*nodes, found))]
                for one, other in zip(wanted[1:], order, strict=True):
                    ways = [more for way in ways for more in unify(one, other, way)]
                yield from ways
    elif not isinstance(found, fx.Node) and repr(wanted) == repr(found):
        yield way


def as_tree(value: Any) -> Tree:
    """The traced pattern as a tree."""
    if not isinstance(value, fx.Node):
        return value
    if value.op == "placeholder":
        return value.name
    name = next(name for name, (function, _) in FUNCTIONS.items() if function is value.target)
    return (name, *map(as_tree, value.args))


@settings(max_examples=400)
@given(wanted=trees(("x", "y", 1), 4), found=trees(("a", "b", 1, 1.0), 7), share=st.booleans())
def test_matching_finds_what_brute_force_finds(wanted: Tree, found: Tree, share: bool) -> None:
    names = sorted(variables(wanted))
    namespace: dict[str, Any] = {"evaluate": evaluate, "tree": wanted}
    exec(
        f"def function({', '.join(names)}): return evaluate(tree, {{{', '.join(f'{n!r}: {n}' for n in names)}}})",
        namespace,
    )
    compiled = pattern(namespace["function"])
    graph = fx.Graph()
    made: dict[str, Any] = {name: graph.placeholder(name) for name in sorted(variables(found))}
    graph.output(emit(found, graph, made, share))

    matcher = Matcher(compiled, GraphIndex(graph, Storages(graph)))
    ours = {
        repr((match.outputs[0], {name: match[name] for name in names}))
        for node in matcher.starts
        for match in matcher.matches(node)
    }
    theirs = {
        repr((node, {name: values[name] for name in names}))
        for node in graph.nodes
        for values, _ in unify(as_tree(compiled.outputs[0]), node, ({}, ()))
    }
    assert ours == theirs


# What is replaced, and what must not be


def seen(module: nn.Module, *inputs: torch.Tensor) -> Any:
    """Everything that a call does, and whether gradients flow through its results."""
    with torch.enable_grad():
        results = module(*[value.clone().requires_grad_() * 1 for value in inputs])
    flat = [results] if isinstance(results, torch.Tensor) else list(results)
    CALLS.clear()
    return observe(module, *inputs), [result.requires_grad for result in flat], len(CALLS)


CALLS: list[int] = []


@fx.wrap
def counted(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(x.numel())
    return x.clone()


def node_graph(write: Callable[[fx.Graph, fx.Node], Any]) -> fx.GraphModule:
    return graph_module(lambda graph: write(graph, graph.placeholder("x")))


DOUBLE_NEGATION = RewriteRule("double_negation", lambda x: torch.neg(torch.neg(x)), lambda x: torch.mul(x, 1.0))
DROP_ONE = RewriteRule("drop_one", lambda x: torch.mul(x, 1.0), lambda x: x)
SINES = RewriteRule(
    "sines",
    lambda x, y: (torch.sin(x), torch.mul(x, y)),
    lambda x, y: (torch.cos(x - torch.pi / 2), torch.mul(y, x)),
)


def overlapping(graph: fx.Graph, x: fx.Node) -> Any:
    for _ in range(3):
        x = graph.call_function(torch.neg, (x,))
    return x


def inner_value_used_elsewhere(graph: fx.Graph, x: fx.Node) -> Any:
    inner = graph.call_function(torch.neg, (x,))
    return graph.call_function(torch.neg, (inner,)), inner


def input_inside(graph: fx.Graph, x: fx.Node) -> Any:
    r = graph.call_function(torch.relu, (x,))
    return graph.call_function(torch.mul, (r, r))


def one_draw(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.mul, (graph.call_function(functional.dropout, (x, 0.5)), 0.0))


def another_draw_in_between(graph: fx.Graph, x: fx.Node) -> Any:
    dropped = graph.call_function(functional.dropout, (x, 0.5))
    other = graph.call_function(torch.rand_like, (x,))
    return graph.call_function(torch.mul, (dropped, 0.5)), other


def unknown_call(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.neg, (graph.call_function(counted, (x,)),))


def write_to_an_input(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.neg, (graph.call_method("add_", (x, 1)),))


def write_through_a_view_of_an_input(graph: fx.Graph, x: fx.Node) -> Any:
    row = graph.call_function(aten.select.int, (x, 0, 0))
    return graph.call_function(aten.neg.default, (graph.call_function(aten.mul_.Tensor, (row, 2)),))


def output_read_before_it_is_written(graph: fx.Graph, x: fx.Node) -> Any:
    made = graph.call_function(aten.neg.default, (x,))
    before = graph.call_function(aten.sin.default, (made,))
    return before, graph.call_function(aten.relu_.default, (made,)), made


def input_written_in_between(graph: fx.Graph, x: fx.Node) -> Any:
    own = graph.call_method("clone", (x,))
    negated = graph.call_function(torch.neg, (own,))
    graph.call_method("add_", (own, 1))
    return graph.call_function(torch.sub, (negated, own))


def input_written_in_between_through_a_view(graph: fx.Graph, x: fx.Node) -> Any:
    negated = graph.call_function(torch.neg, (x,))
    graph.call_method("add_", (graph.call_method("view", (x, -1)), 1))
    return graph.call_function(torch.sub, (negated, x))


def mode_switched_in_between(graph: fx.Graph, x: fx.Node) -> Any:
    graph.call_function(torch._C._set_grad_enabled, (False,))
    negated = graph.call_function(torch.neg, (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_function(torch.neg, (negated,))


def late_input(graph: fx.Graph, x: fx.Node) -> Any:
    sine = graph.call_function(torch.sin, (x,))
    late = graph.call_function(torch.exp, (sine,))
    return graph.call_function(torch.mul, (x, late))


def input_returned(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.mul, (x, 1.0))


def copy_written(graph: fx.Graph, x: fx.Node) -> Any:
    inner = graph.call_function(torch.exp, (x,))
    copy = graph.call_function(torch.mul, (inner, 1.0))
    graph.call_method("add_", (copy, 1))
    return graph.call_function(torch.sub, (copy, inner))


def input_returned_in_two_steps(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.mul, (graph.call_function(torch.mul, (x, 1.0)), 1.0))


def literal_in_the_place_of_a_node(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.mul, (x, 1.0))


def two_outputs(graph: fx.Graph, x: fx.Node) -> Any:
    return graph.call_function(torch.sin, (x,)), graph.call_function(torch.cos, (x,))


REFUSED: dict[Callable[..., Any], tuple[str, RewriteRule]] = {
    overlapping: ("one match for each node", DOUBLE_NEGATION),
    inner_value_used_elsewhere: ("inner values are used inside only", DOUBLE_NEGATION),
    input_inside: (
        "inputs lie outside",
        RewriteRule("r", lambda x, y: torch.mul(torch.relu(x), y), lambda x, y: torch.mul(torch.clamp_min(x, 0), y)),
    ),
    one_draw: (
        "a draw stays",
        RewriteRule("r", lambda x: torch.mul(functional.dropout(x, 0.5), 0.0), lambda x: torch.zeros_like(x)),
    ),
    another_draw_in_between: (
        "a draw stays",
        RewriteRule(
            "r",
            lambda x: torch.mul(functional.dropout(x, 0.5), 0.5),
            lambda x: functional.dropout(torch.mul(x, 0.5), 0.5),
            draws=True,
        ),
    ),
    unknown_call: (
        "what a node does stays",
        RewriteRule("r", lambda x: torch.neg(counted(x)), lambda x: torch.neg(x)),
    ),
    write_to_an_input: ("a write stays", RewriteRule("r", lambda x: torch.neg(x.add_(1)), lambda x: torch.sub(-1, x))),
    write_through_a_view_of_an_input: (
        "a write stays",
        RewriteRule(
            "r",
            lambda x: aten.neg.default(aten.mul_.Tensor(aten.select.int(x, 0, 0), 2)),
            lambda x: aten.mul.Tensor(aten.select.int(x, 0, 0), -2),
        ),
    ),
    output_read_before_it_is_written: (
        "a write stays",
        RewriteRule(
            "r",
            lambda x: (y := aten.neg.default(x), aten.relu_.default(y)),
            lambda x: (y := aten.relu.default(aten.neg.default(x)), aten.view.default(y, [2, 3])),
        ),
    ),
    input_written_in_between: (
        "nothing is written in between",
        RewriteRule("r", lambda x: torch.sub(torch.neg(x), x), lambda x: torch.mul(x, -2)),
    ),
    input_written_in_between_through_a_view: (
        "nothing is written in between",
        RewriteRule("r", lambda x: torch.sub(torch.neg(x), x), lambda x: torch.mul(x, -2)),
    ),
    mode_switched_in_between: ("one mode", DOUBLE_NEGATION),
    late_input: ("there is a place", SINES),
    input_returned: ("storage is shared as before", DROP_ONE),
    copy_written: ("storage is shared as before", DROP_ONE),
    two_outputs: (
        "storage is shared as before",
        RewriteRule("r", lambda x: (torch.sin(x), torch.cos(x)), lambda x: (y := torch.sin(x), y)),
    ),
    literal_in_the_place_of_a_node: (
        "the replacement is a value",
        RewriteRule("r", lambda x, y: torch.mul(x, y), lambda y: y),
    ),
}


@pytest.mark.parametrize("write", REFUSED, ids=lambda write: write.__name__)
def test_what_must_stay_stays_and_its_check_is_needed(write: Callable[..., Any]) -> None:
    check, rule = REFUSED[write]
    x = torch.linspace(-1, 2, 6).reshape(2, 3)
    module = node_graph(write)
    before, wanted = seen(module, x), len(operations(module))
    result = apply(module, rule)
    if write is not overlapping:
        assert not result.changed
        assert len(operations(module)) == wanted
        assert result.refusals
    assert seen(module, x) == before
    module = node_graph(write)
    with disabled(f"pattern: {check}"):
        try:
            result = apply(module, rule)
            after = seen(module, x)
        except (RuntimeError, AttributeError, TypeError, ValueError, UnboundLocalError, PassError) as error:
            after = error
    assert result.changed or isinstance(after, Exception)
    assert after != before


def test_overlapping_matches_are_taken_in_order() -> None:
    class Rules(PatternPass):
        name = "rules"
        rules = (DOUBLE_NEGATION,)

    analysis = Rules().analyze(GraphEditor(node_graph(overlapping)))
    assert [opportunity.node.name for opportunity in analysis.opportunities] == ["neg_1"]
    assert [(refusal.node, refusal.reason) for refusal in analysis.refusals] == [
        ("neg_2", "double_negation: neg_1 is part of another match")
    ]


def test_a_value_is_not_passed_through_to_the_caller_in_two_steps() -> None:
    x = torch.randn(3)
    for rules in (
        (DROP_ONE,),
        (RewriteRule("r", lambda x: torch.mul(torch.neg(x), 1.0), lambda x: torch.neg(x)), DROP_ONE),
    ):
        module = node_graph(input_returned_in_two_steps)
        before = seen(module, x)
        assert apply(module, *rules).changed
        assert operations(module) == ["mul"]
        assert seen(module, x) == before

    def mixed(graph: fx.Graph, x: fx.Node) -> Any:
        return graph.call_function(torch.mul, (graph.call_function(torch.add, (x, 0)), 1.0))

    module = node_graph(mixed)
    before = seen(module, x)
    apply(module, DROP_ONE, RewriteRule("drop_zero", lambda x: torch.add(x, 0), lambda x: x))
    assert len(operations(module)) == 1
    assert seen(module, x) == before


def test_a_write_to_a_value_of_the_match_itself_is_no_obstacle() -> None:
    def write(graph: fx.Graph, x: fx.Node) -> Any:
        return graph.call_function(functional.relu, (graph.call_function(torch.neg, (x,)), True))

    rule = RewriteRule(
        "r", lambda x: functional.relu(torch.neg(x), inplace=True), lambda x: torch.clamp_min(torch.neg(x), 0)
    )
    module, x = node_graph(write), torch.randn(5)
    before = seen(module, x)
    assert apply(module, rule).changed
    assert operations(module) == ["neg", "clamp_min"]
    assert seen(module, x) == before


def test_a_draw_is_replaced_where_the_rule_says_so() -> None:
    rule = REFUSED[another_draw_in_between][1]
    module = node_graph(
        lambda graph, x: graph.call_function(torch.mul, (graph.call_function(functional.dropout, (x, 0.5)), 0.5))
    )
    x = torch.randn(5)
    before = seen(module, x)
    assert apply(module, rule).changed
    assert seen(module, x) == before


def test_several_outputs_are_inserted_where_inputs_are_there_and_users_not_yet() -> None:
    def program(x: Any) -> Any:
        y = torch.exp(x)
        s = torch.sin(x)
        used = torch.tanh(s)
        return torch.mul(x, y) + used

    module, x = traced(program), torch.randn(4, dtype=torch.float64)
    before = module(x)
    assert apply(module, SINES).changed
    torch.testing.assert_close(module(x), before)
    assert operations(module) == ["exp", "sub", "cos", "mul", "tanh", "add"]


def test_matches_that_feed_each_other_are_all_replaced() -> None:
    rule = RewriteRule("r", lambda x, y: torch.relu(torch.add(x, y)), lambda x, y: torch.clamp_min(torch.add(y, x), 0))

    def program(x: Any) -> Any:
        for _ in range(4):
            x = torch.relu(torch.add(x, x))
        return x

    module, x = traced(program), torch.randn(4)
    before = module(x)
    result = apply(module, rule)
    assert len(result.rewrites) == 4
    assert torch.equal(module(x), before)
    assert not apply(module, rule).changed


def test_pairs_that_feed_each_other_are_all_replaced() -> None:
    def program(x: Any) -> Any:
        for _ in range(5):
            s = torch.sin(x)
            t = torch.tanh(s)
            x = torch.mul(torch.mul(x, 0.5), t)
        return x

    module, x = traced(program), torch.randn(4, dtype=torch.float64)
    before = module(x)
    result = apply(module, SINES)
    assert len(result.rewrites) == 5
    torch.testing.assert_close(module(x), before)


@pytest.mark.parametrize("early_first", [True, False])
def test_a_match_that_moves_up_and_one_that_feeds_it_are_not_both_taken_at_once(early_first: bool) -> None:
    """One pair has to stand early, where its sine is used, and reads the sine of another pair, which moves down."""

    def program(x: Any, z: Any) -> Any:
        early = torch.sin(z) if early_first else None
        feeding = torch.sin(x)
        early = early if early_first else torch.sin(z)
        used = torch.tanh(early)
        late = torch.exp(used)
        low = torch.mul(x, late)
        return torch.mul(z, feeding) + low

    module, inputs = traced(program), torch.randn(2, 4, dtype=torch.float64)
    before = module(*inputs)
    result = apply(module, SINES)
    assert result.changed
    torch.testing.assert_close(module(*inputs), before)
    module = traced(program)
    # The editor notices at once, before there is a broken graph.
    late = "is computed after the place where it would be read"
    with disabled("pattern: one match for each node"), pytest.raises(ValueError, match=late):
        apply(module, SINES)


def test_checks_say_why_not() -> None:
    def positive(match: Match) -> str | None:
        if not isinstance(match["y"], int):
            return "y is no number"
        return None if match["y"] > 0 else f"{match['y']} is not positive"

    rule = RewriteRule("r", lambda x, y: torch.mul(x, y), lambda x, y: torch.div(x, y), checks=(positive,))
    result = apply(traced(lambda x: torch.mul(torch.mul(x, -2), 4)), rule)
    assert [rewrite.node for rewrite in result.rewrites] == ["mul_1"]
    assert reasons(result) == "r: -2 is not positive"


def test_another_order_of_a_commutative_call_is_tried_where_one_is_refused() -> None:
    def literal(match: Match) -> str | None:
        return None if isinstance(match["y"], float) else "y is no number"

    rule = RewriteRule("r", lambda x, y: operator.mul(x, y), lambda x, y: torch.mul(x, y), checks=(literal,))
    module = traced(lambda x: 2.0 * torch.sin(x) + torch.sin(x) * 3.0)
    assert apply(module, rule).statistics == {"rules/r": 2}


def test_several_spellings_are_one_rule() -> None:
    rule = RewriteRule(
        "r",
        (lambda x: torch.relu(x), lambda x: x.relu(), lambda x: functional.relu(x)),
        lambda x: torch.clamp_min(x, 0),
    )
    module = traced(lambda x: torch.relu(x) + x.relu() + functional.relu(x))
    assert apply(module, rule).statistics == {"rules/r": 3}


def test_provenance_and_example_values_are_kept() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.neg(x))

    exported = torch.export.export(traced(program), (torch.randn(2, 3),))
    module = exported.module()
    relu = next(node for node in module.graph.nodes if node.target is aten.relu.default)
    relu.meta["stack_trace"] = trace = 'File "model.py", line 3, in forward\n    return torch.relu(torch.neg(x))'
    value = relu.meta["val"]
    rule = RewriteRule(
        "r", lambda x: aten.relu.default(aten.neg.default(x)), lambda x: aten.clamp_min.default(aten.neg.default(x), 0)
    )
    result = apply(module, rule)
    assert result.changed
    new = [node for node in module.graph.nodes if node.target in (aten.neg.default, aten.clamp_min.default)]
    assert len(new) == 2
    for node in new:
        assert node.meta["stack_trace"] == trace
        assert (node.meta["val"].shape, node.meta["val"].dtype) == (value.shape, value.dtype)
    assert source_line(result.rewrites[0].stack_trace) == "model.py:3: return torch.relu(torch.neg(x))"


def test_a_replacement_of_another_dtype_is_an_error() -> None:
    module = torch.export.export(traced(lambda x: torch.neg(x)), (torch.randn(2, 3),)).module()
    rule = RewriteRule("r", lambda x: aten.neg.default(x), lambda x: aten.gt.Scalar(x, 0))
    with pytest.raises(PassError, match="expected the same shape, dtype and device"):
        apply(module, rule)


def test_a_rule_may_build_its_replacement() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.neg(self.linear(x))

    def build(editor: GraphEditor, match: Match) -> fx.Node:
        linear = match.module("linear")
        assert isinstance(linear, nn.Linear)
        negated = nn.Linear(3, 4)
        negated.weight, negated.bias = nn.Parameter(-linear.weight.detach()), nn.Parameter(-linear.bias.detach())
        return editor.insert("call_module", editor.module(negated, "negated"), (match["x"],), like=match.anchor)

    model, x = Model(), torch.randn(2, 3)
    module = fx.symbolic_trace(model)
    rule = RewriteRule("r", lambda x: torch.neg(named(module_linear(x), "linear")), build=build)
    assert apply(module, rule).changed
    assert operations(module) == ["negated"]
    assert torch.equal(module(x), model(x))


module_linear = module(nn.Linear)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda editor, match: match["x"], "may share storage"),
        (
            lambda editor, match: editor.call(aten.view.default, match["x"], [-1], like=match.anchor),
            "may share storage",
        ),
        (lambda editor, match: [], "made 0 values for 1 outputs"),
    ],
)
def test_what_was_built_is_checked(build: Any, message: str) -> None:
    rule = RewriteRule("r", lambda x: torch.neg(x), build=build)
    with pytest.raises(PassError, match=message):
        apply(traced(lambda x: torch.neg(x) + 1), rule)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "either a replacement or a build function"),
        ({"replacement": lambda x: x, "build": lambda editor, match: None}, "either a replacement or a build function"),
        ({"replacement": lambda z: torch.neg(z)}, r"\['z'\], which its pattern has not"),
        ({"replacement": lambda x: (x, x)}, "replaces 1 outputs with 2"),
        ({"replacement": lambda x: torch.rand_like(x)}, "does more than compute"),
        ({"replacement": lambda x: x.add_(1)}, "does more than compute"),
    ],
)
def test_a_rule_that_does_not_fit_together_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(PatternError, match=message):
        RewriteRule("r", lambda x: torch.sin(x), **how)


def test_rules_that_go_on_for_ever_are_an_error() -> None:
    rule = RewriteRule("r", lambda x: torch.sin(x), lambda x: torch.sin(x))
    with pytest.raises(PassError, match="after 100 rounds"):
        apply(traced(lambda x: torch.sin(x)), rule)


def test_many_users_of_one_value_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: how often a goal is met, for pairs whose only link is one input."""
    goals: list[Any] = []
    original = Matcher._meet

    def counting(self: Matcher, goal: Any, *rest: Any) -> Any:
        goals.append(goal)
        return original(self, goal, *rest)

    monkeypatch.setattr(Matcher, "_meet", counting)
    rule = RewriteRule("r", lambda x: (torch.sin(x), torch.cos(x)), lambda x: (torch.neg(x), torch.exp(x)))
    counts = []
    for size in (200, 400):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.output([graph.call_function(function, (x,)) for _ in range(size) for function in (torch.sin, torch.cos)])
        graph_module = fx.GraphModule(nn.Module(), graph)
        goals.clear()
        apply(graph_module, rule)
        assert operations(graph_module).count("neg") == size
        counts.append(len(goals))
    assert counts[1] <= 2.1 * counts[0]
