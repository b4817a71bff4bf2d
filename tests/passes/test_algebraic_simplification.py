"""Every rule of the table on hostile values of every dtype, and what only looks as if a rule applied."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import aten, operations
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from fxopt_core.capture import capture
from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.graphs.operations import PYTHON_OPERATORS
from fxopt_core.passes import disabled, make_pass, run_pass
from fxopt_core.passes.algebraic_rules import ANY, EXACT_RULES, FAST_RULES, REAL, Call, Pattern, Rule, Variable
from fxopt_core.passes.algebraic_simplification import FAST_MATH
from fxopt_core.verification import check_equivalence

Table = dict[torch.dtype, torch.Tensor]

SIZES = {"aten": ((), (0,), (5, 8), (37,)), "torch": ((37,),), "python": ((3,),), "method": ((3,),)}
NUMBERS = {"c": 2, "d": 3}


def hostile(dtype: torch.dtype, size: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Signed zeros, infinities, NaN, subnormal and largest numbers; smallest and largest integers."""
    if dtype == torch.bool:
        pool = torch.tensor([True, False])
    elif dtype.is_complex:
        parts = hostile(torch.float32 if dtype == torch.complex64 else torch.float64, (2, 40), seed)
        pool = torch.complex(parts[0], parts[1])
    elif dtype.is_floating_point:
        limits = torch.finfo(dtype)
        special = [0.0, -0.0, limits.max, limits.min, limits.tiny, limits.tiny / 2, -limits.tiny / 4, 1.0, -1.0, 0.5]
        special += [float("nan"), float("inf"), -float("inf"), 3.0, -2.5, 1 / 3, limits.tiny * 3.5]
        pool = torch.tensor(special, dtype=torch.float64).to(dtype)
    else:
        bounds = torch.iinfo(dtype)
        pool = torch.tensor([0, 1, 2, 3, bounds.max, bounds.min, bounds.max - 1, bounds.min + 1], dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    return pool[torch.randint(len(pool), size, generator=generator)]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Of the same dtype, shape and strides, and bitwise equal but for sign and payload of NaN."""
    if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
        return False
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    if one.is_floating_point():
        equal = (one == other) & (one.signbit() == other.signbit()) | one.isnan() & other.isnan()
        return bool(equal.all())
    return torch.equal(one, other)


def variables(pattern: Pattern) -> list[str]:
    """The tensors of a pattern, in order."""
    if isinstance(pattern, Variable):
        return [] if pattern.numeric or pattern.name == "rest" else [pattern.name]
    if not isinstance(pattern, Call):
        return []
    return list(dict.fromkeys(name for operand in pattern.operands for name in variables(operand)))


def target(name: str, dialect: str) -> Any:
    if dialect == "aten":
        return getattr(aten, name)
    if dialect == "python" and name in PYTHON_OPERATORS:
        return getattr(operator, PYTHON_OPERATORS[name])
    return getattr(torch, name, None) or getattr(functional, name)


def program(
    rule: Rule, dialect: str, inputs: dict[str, torch.Tensor], numbers: dict[str, int] = NUMBERS
) -> fx.GraphModule:
    """The left side of a rule as a graph over copies of its inputs, with what a capture knows of every node."""
    graph = fx.Graph()
    # What is written to or returned is a matter of other tests: here every value has storage of its own.
    values = {name: graph.call_method("clone", (graph.placeholder(name),)) for name in inputs}

    def build(pattern: Pattern) -> Any:
        if isinstance(pattern, Variable):
            return numbers[pattern.name] if pattern.numeric else values[pattern.name]
        if not isinstance(pattern, Call):
            return pattern
        operands = tuple(build(operand) for operand in pattern.operands if operand != Variable("rest"))
        tensors = any(isinstance(operand, fx.Node) for operand in operands)
        method = isinstance(operands[0], fx.Node) and hasattr(torch.Tensor, pattern.operation)
        if dialect == "method" and method and pattern.operation != "where":
            return graph.call_method(pattern.operation, operands)
        called = target(pattern.operation, dialect if tensors else "python")
        return graph.call_function(_overload(called, operands), operands)

    graph.output(build(rule.before))
    module = fx.GraphModule(nn.Module(), graph)
    return with_examples(module, tuple(inputs.values()))


def with_examples(module: fx.GraphModule, inputs: tuple[torch.Tensor, ...]) -> fx.GraphModule:
    """Note at each node what a capture knows: its value without data."""
    values: dict[fx.Node, Any] = {}
    with FakeTensorMode() as mode:
        for node, tensor in zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True):
            values[node] = mode.from_tensor(tensor)
        for node in module.graph.nodes:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            if node.op == "call_function":
                values[node] = node.target(*args, **kwargs)
            elif node.op == "call_method":
                values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            node.meta["val"] = values.get(node)
    return module


def _overload(called: Any, operands: tuple[Any, ...]) -> Any:
    """A graph calls overloads, not their packet: the first one that takes these operands."""
    if not isinstance(called, torch._ops.OpOverloadPacket):
        return called
    arithmetic = called in (aten.add, aten.sub, aten.mul, aten.div)
    preferred = sorted(called.overloads(), key=lambda name: ("Scalar" in name) == arithmetic)
    for overload in (getattr(called, name) for name in preferred):
        arguments = overload._schema.arguments
        kinds = ["Tensor" if isinstance(operand, fx.Node) else "number" for operand in operands]
        wanted = [str(argument.type).removeprefix("Optional[").rstrip("]") for argument in arguments[: len(operands)]]
        optional = all(argument.has_default_value() for argument in arguments[len(operands) :])
        if optional and len(wanted) == len(kinds) and all(
            want in (kind, "Tensor") for kind, want in zip(kinds, wanted, strict=True)
        ):  # fmt: skip
            return overload
    raise TypeError(f"no overload of {called} takes {operands}")


def inputs_of(rule: Rule, dtype: torch.dtype, size: tuple[int, ...], seed: int = 0) -> dict[str, torch.Tensor]:
    return {
        name: hostile(torch.bool if name == "mask" else dtype, size, seed + number)
        for number, name in enumerate(variables(rule.before))
    }


DIALECTS = tuple(SIZES)


def names(result: Any) -> str:
    return " ".join(result.statistics)


@pytest.mark.parametrize("rule", EXACT_RULES, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rule_changes_no_bit_and_applies_where_it_says(rule: Rule, dialect: str) -> None:
    """Of each dtype either the rule applies, or the program raises or gives another dtype."""
    applied = 0
    for dtype in sorted(ANY, key=str):
        for size in SIZES[dialect]:
            inputs = inputs_of(rule, dtype, size)
            try:
                module = program(rule, dialect, inputs)
                expected = module(*inputs.values())
            except (RuntimeError, TypeError):
                continue  # there is no such operation for this dtype or in this dialect
            result = run_pass("algebraic_simplification", module)
            found = module(*inputs.values())
            assert same_bits(found, expected), (dtype, size, module.code)
            if rule.name not in names(result):
                stays = dtype not in rule.dtypes or expected.dtype not in (dtype, torch.bool)
                assert stays or result.changed, (dtype, size, result.refusals)
            else:
                assert dtype in rule.dtypes
                applied += 1
                assert not run_pass("algebraic_simplification", module).changed
    python = dialect == "python" and rule.before.operation not in PYTHON_OPERATORS
    assert applied or python or dialect == "method", "the rule is never applied"


@pytest.mark.parametrize("rule", EXACT_RULES, ids=lambda rule: rule.name)
def test_gradients_and_everything_else_stay(rule: Rule) -> None:
    """In float64, with everything that verification looks at; for rules of other dtypes in one of theirs."""
    dtype = next(each for each in (torch.float64, torch.int64, torch.bool) if each in rule.dtypes)
    inputs = inputs_of(rule, dtype, (4, 5))
    if dtype.is_floating_point:
        inputs |= {
            name: tensor.nan_to_num(0.25, 2.0, -3.0).clamp(-9, 9).requires_grad_()
            for name, tensor in inputs.items()
            if tensor.is_floating_point()
        }
    module = program(rule, "aten", inputs)
    simplified = clone_graph_module(module)
    assert rule.name in names(run_pass("algebraic_simplification", simplified))
    equivalence = check_equivalence(module, simplified, tuple(inputs.values()))
    assert equivalence, equivalence


def floats(dtype: torch.dtype) -> st.SearchStrategy[list[float]]:
    width = {torch.float16: 16, torch.bfloat16: 16, torch.float32: 32}.get(dtype, 64)
    return st.lists(st.floats(width=width), min_size=1, max_size=40)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Rule, dict[str, torch.Tensor]]:
    """An exact rule, one of its dtypes, any values."""
    rule = draw(st.sampled_from(EXACT_RULES))
    dtype = draw(st.sampled_from(sorted(rule.dtypes & REAL, key=str)))
    size = draw(st.integers(1, 40))
    inputs = {}
    for name in variables(rule.before):
        own = torch.bool if name == "mask" else dtype
        if own.is_floating_point:
            numbers = draw(floats(own))
        elif own == torch.bool:
            numbers = draw(st.lists(st.booleans(), min_size=1, max_size=40))
        else:
            bounds = torch.iinfo(own)
            numbers = draw(st.lists(st.integers(bounds.min, bounds.max), min_size=1, max_size=40))
        values = torch.tensor(numbers, dtype=torch.float64 if own.is_floating_point else own).to(own)
        inputs[name] = values.repeat(size)[:size]
    return rule, inputs


@settings(max_examples=300, deadline=None, derandomize=True)
@given(cases(), st.sampled_from(DIALECTS))
def test_rules_change_no_bit_of_any_values(case: tuple[Rule, dict[str, torch.Tensor]], dialect: str) -> None:
    rule, inputs = case
    try:
        module = program(rule, dialect, inputs)
        expected = module(*inputs.values())
    except (RuntimeError, TypeError):
        return
    run_pass("algebraic_simplification", module)
    assert same_bits(module(*inputs.values()), expected), module.code


@pytest.mark.parametrize("rule", FAST_RULES, ids=lambda rule: rule.name)
def test_a_fast_rule_is_opt_in_and_keeps_its_tolerance(rule: Rule) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = {name: torch.rand(64, generator=generator) + 0.5 for name in variables(rule.before)}
    module = program(rule, "aten", inputs, {"c": 3, "d": 5})
    assert rule.name not in names(run_pass("algebraic_simplification", clone_graph_module(module)))
    simplified = clone_graph_module(module)
    result = run_pass("algebraic_simplification", simplified, fast_math=True)
    if rule.carries_gradients:
        assert rule.name in names(result)
        assert str(FAST_MATH) in str(result.rewrites[0].tolerance)
    equivalence = check_equivalence(module, simplified, tuple(inputs.values()), tolerance=FAST_MATH, adversarial=False)
    assert equivalence, equivalence


def test_exact_rewrites_say_so_among_fast_ones() -> None:
    whole = exported(lambda x: (torch.sin(x) * 1 + 1, torch.exp(torch.log(x)) + 1), torch.rand(4) + 1)
    result = run_pass("algebraic_simplification", whole, fast_math=True)
    assert {rewrite.rule: str(rewrite.tolerance) for rewrite in result.rewrites} == {
        "algebraic_simplification/x * 1 -> x": "bitwise",
        "algebraic_simplification/exp(log(x)) -> x (fast_math)": str(FAST_MATH),
    }
    assert make_pass("algebraic_simplification").tolerance.exact


def exported(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    module = capture(function, inputs, "export").module
    assert module is not None
    return module


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: torch.sin(x) * 1 * 1.0 / 1 - 0 + -0.0, ["sin.default"]),
        (lambda x: torch.sin(x).neg().neg().neg().neg(), ["sin.default"]),
        (lambda x: x.long() ** 2 * 1, ["to.dtype", "mul.Tensor"]),
        (lambda x: abs(-abs(torch.sin(x))), ["sin.default", "abs.default"]),
        (lambda x: torch.sin(x) / 2 / 4, ["sin.default", "mul.Tensor", "mul.Tensor"]),
        (lambda x: x.long() + 1 + 2 + 3, ["to.dtype", "add.Tensor"]),
    ],
)
def test_a_chain_reaches_its_end_in_one_run(function: Callable[..., Any], left: list[str]) -> None:
    x = torch.randn(5)
    module = exported(function, x)
    expected = module(x)
    assert run_pass("algebraic_simplification", module).changed
    run_pass("dead_code", module)
    assert [name for name in operations(module) if not name.startswith("_")] == left
    assert same_bits(module(x), expected)
    assert not run_pass("algebraic_simplification", module).changed


def test_denied_rewrites_leave_the_others_valid() -> None:
    x = torch.arange(-2, 3)
    whole = exported(lambda x: (x.abs() ** 2 * 1) ** 2 * 1 + 1, x)
    keys = [rewrite.key for rewrite in run_pass("algebraic_simplification", clone_graph_module(whole)).rewrites]
    assert len(keys) == 4
    from fxopt_core.graphs.editor import GraphEditor

    for kept in range(1 << len(keys)):
        module = clone_graph_module(whole)
        editor = GraphEditor(module)
        denied = [key for number, key in enumerate(keys) if not kept >> number & 1]
        made = make_pass("algebraic_simplification").run(editor, denied=denied)
        editor.finish()
        assert [rewrite.key for rewrite in made.rewrites] == [key for key in keys if key not in denied]
        assert same_bits(module(x), whole(x))


def neighbours() -> Iterator[tuple[str, Callable[..., Any], torch.Tensor]]:
    f, i = torch.tensor([-0.0, 1.5, float("nan")]), torch.tensor([3, -4, 0])
    yield "x + 0.0", lambda x: x.sin() + 0.0, f
    yield "0.0 + x", lambda x: 0.0 + x.sin(), f
    yield "x - -0.0", lambda x: x.sin() - (-0.0), f
    yield "x * 1.0 of integers", lambda x: x.abs() * 1.0, i
    yield "x / 1 of integers", lambda x: x.abs() / 1, i
    yield "x ** 1.0 of integers", lambda x: x.abs() ** 1.0, i
    yield "x * 0 of floats", lambda x: x.sin() * 0, f
    yield "x - x of floats", lambda x: x.sin() - x.sin(), f
    yield "x / 3", lambda x: x.sin() / 3, f
    yield "x // 1 of floats", lambda x: x.sin() // 1, f
    yield "x / 1 rounded", lambda x: torch.div(x.sin(), 1, rounding_mode="floor"), f
    yield "x - 0 * alpha", lambda x: torch.sub(x.sin(), 1, alpha=0.5), f
    yield "x & 1", lambda x: x.abs() & 1, i
    yield "not not of integers", lambda x: torch.logical_not(torch.logical_not(x.abs())), i
    yield "not <", lambda x: ~(x.sin() < 1), f
    yield "1 - x", lambda x: 1 - x.sin(), f
    yield "0 - x", lambda x: 0 - x.sin(), f
    yield "2 ** x", lambda x: 2 ** x.sin(), f
    yield "1 ** x", lambda x: 1 ** x.abs(), i
    yield "where with other branches", lambda x: torch.where(x > 0, x.sin(), x.cos()), f
    yield "x.where(y, x)", lambda x: (lambda y: y.where(y > 0, x.cos()))(x.sin()), f
    yield "round to decimals", lambda x: torch.round(torch.round(x.sin(), decimals=1), decimals=2), f
    yield "other bounds", lambda x: x.sin().clamp(-1, 2).clamp(0, 1), f
    yield "broadcasting", lambda x: torch.maximum(x.sin()[None], x.sin()[None].expand(2, 3)), f
    yield "complex", lambda x: x.sin() * 1, torch.tensor([1j, float("inf") + 0j])


@pytest.mark.parametrize(("name", "function", "x"), neighbours(), ids=lambda value: str(value)[:40])
def test_what_is_next_to_a_rule_stays(name: str, function: Callable[..., Any], x: torch.Tensor) -> None:
    module = exported(function, x)
    wanted, expected = operations(module), function(x)
    run_pass("algebraic_simplification", module)
    assert operations(module) == wanted
    assert same_bits(module(x), expected)


def with_values(build: Callable[[fx.Graph], Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph that `build` writes, with what a capture knows of its values."""
    graph = fx.Graph()
    graph.output(build(graph))
    module = fx.GraphModule(nn.Module(), graph)
    with torch.enable_grad():  # puts back what the graph switches
        return with_examples(module, inputs)


def unknown_values(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("i"),))
    return graph.call_function(torch.mul, (own, 1.0))


def promotion(graph: fx.Graph) -> Any:
    return unknown_values(graph)


def other_strides(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("x"),))
    wide = graph.call_method("expand", (own, 2, -1))
    return graph.call_method("sin", (graph.call_method("view", (graph.call_function(torch.mul, (wide, 1)), -1)),))


def looked_at_by_position(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("x"),))
    part = graph.call_function(operator.getitem, (own, slice(1, 3)))
    product = graph.call_function(torch.mul, (part, 1))
    return graph.call_method("sin", (graph.call_function(torch.as_strided, (product, (2,), (1,), 0)),))


def result_is_written(graph: fx.Graph) -> Any:
    own = graph.call_method("sin", (graph.placeholder("x"),))
    product = graph.call_function(aten.mul.Tensor, (own, 1))
    graph.call_function(aten.add_.Tensor, (product, 1))
    return graph.call_function(aten.sub.Tensor, (own, product))


def source_is_written(graph: fx.Graph) -> Any:
    own = graph.call_method("sin", (graph.placeholder("x"),))
    product = graph.call_function(aten.mul.Tensor, (own, 1))
    graph.call_function(aten.add_.Tensor, (own, 1))
    return graph.call_function(aten.sub.Tensor, (own, product))


def inner_is_written(graph: fx.Graph) -> Any:
    own = graph.call_method("sin", (graph.placeholder("x"),))
    negative = graph.call_function(aten.neg.default, (own,))
    graph.call_function(aten.add_.Tensor, (negative, 1))
    return graph.call_function(aten.neg.default, (negative,))


def read_before_a_write(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("i"),))
    more = graph.call_function(aten.add.Tensor, (own, 1))
    graph.call_function(aten.mul_.Tensor, (own, 5))
    return graph.call_function(aten.add.Tensor, (more, 2))


def input_is_returned(graph: fx.Graph) -> Any:
    return graph.call_function(torch.mul, (graph.placeholder("x"), 1))


def one_value_twice(graph: fx.Graph) -> Any:
    own = graph.call_method("sin", (graph.placeholder("x"),))
    return [graph.call_function(torch.mul, (own, 1)), own]


def without_gradients(graph: fx.Graph) -> Any:
    own = graph.call_method("sin", (graph.placeholder("x"),))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    product = graph.call_function(torch.mul, (own, 1))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (product,))


def leaf_without_gradients(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    product = graph.call_function(torch.mul, (x, 1))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (product,))


def leaf_is_handed_on_without_gradients(graph: fx.Graph) -> Any:
    """The product asks for no gradients, nor does the dropout that hands it on; the input does."""
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    product = graph.call_function(torch.mul, (x, 1))
    handed_on = graph.call_function(torch.nn.functional.dropout, (product,), {"training": False})
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (handed_on,))


def inner_without_gradients(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    negative = graph.call_function(torch.neg, (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_function(torch.abs, (negative,))


def signed_zero(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("x"),))
    return graph.call_function(operator.add, (own, 0.0))


def unsigned(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("u"),))
    return graph.call_function(torch.abs, (graph.call_function(torch.neg, (own,)),))


def negative_before_promotion(graph: fx.Graph) -> Any:
    i, u = graph.placeholder("i"), graph.placeholder("u")
    return graph.call_function(torch.sub, (i, graph.call_function(torch.neg, (u,))))


def third(graph: fx.Graph) -> Any:
    return graph.call_function(torch.div, (graph.placeholder("x"), 3))


def sums_of_fractions(graph: fx.Graph) -> Any:
    own = graph.call_method("clone", (graph.placeholder("i"),))
    return graph.call_function(torch.add, (graph.call_function(torch.add, (own, 0.1)), 0.2))


def constant(graph: fx.Graph) -> Any:
    return graph.call_function(torch.mul, (graph.placeholder("x"), 0))


X = torch.tensor([-0.0, 0.7, 2.3, 5.1], requires_grad=True)
I = torch.tensor([5, 2**24 + 1, -3, 0])  # noqa: E741
U = torch.tensor([1, 0, 255, 7], dtype=torch.uint8)
GIVEN = {"x": X, "i": I, "u": U}

REFUSED: dict[Callable[[fx.Graph], Any], str] = {
    unknown_values: "values are known",
    promotion: "same tensor",
    other_strides: "same tensor",
    looked_at_by_position: "same place in storage",
    result_is_written: "nothing is written",
    source_is_written: "nothing is written",
    inner_is_written: "nothing is written",
    read_before_a_write: "nothing is written",
    input_is_returned: "returned values are new",
    one_value_twice: "returned values are new",
    without_gradients: "same mode",
    leaf_without_gradients: "same mode",
    inner_without_gradients: "same mode",
    leaf_is_handed_on_without_gradients: "same mode",
    signed_zero: "the rule holds for the dtype",
    unsigned: "the rule holds for the dtype",
    negative_before_promotion: "one dtype",
    third: "the rule holds for the numbers",
    sums_of_fractions: "the rule holds for the numbers",
    constant: "gradients still flow",
}


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
def test_what_is_refused_is_needed(build: Callable[[fx.Graph], Any]) -> None:
    graph = fx.Graph()
    build(graph)
    inputs = tuple(GIVEN[node.name] for node in graph.nodes if node.op == "placeholder")
    original = with_values(build, *inputs)
    if build is unknown_values:
        for node in original.graph.nodes:
            node.meta.clear()
    fast = build is constant
    module = clone_graph_module(original)
    result = run_pass("algebraic_simplification", module, fast_math=fast)
    assert operations(module) == operations(original)
    assert result.refusals
    with disabled(f"algebraic_simplification: {REFUSED[build]}"):
        assert run_pass("algebraic_simplification", module, fast_math=fast).changed
    assert not check_equivalence(original, module, inputs, adversarial=False)


def test_under_no_grad_a_constant_is_one() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        zero = graph.call_function(torch.mul, (x, 0))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return zero

    module = with_values(build, X)
    assert run_pass("algebraic_simplification", module, fast_math=True).changed
    assert operations(module)[1] == "zeros_like"
