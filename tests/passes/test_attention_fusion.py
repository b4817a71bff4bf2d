"""Attention that is written out, in every form, becomes one operator that gives what the formula gives, always."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from passes.programs import operations
from real_models import with_attention_written_out
from recorded_operators import Recorder
from torch import fx, nn
from torch.autograd import forward_ad
from torch.nn import functional

from fxopt_core.graphs import fused_attention
from fxopt_core.graphs.fused_attention import FusedAttention
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import PRESETS, disabled, run_pass
from fxopt_core.passes.attention_fusion import AttentionFusion
from fxopt_core.verification import check_equivalence

Inputs = tuple[torch.Tensor, ...]


@pytest.fixture(autouse=True)
def small_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the kernel is tried with few scores."""
    monkeypatch.setattr(fused_attention, "WORTHWHILE", 1)


FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


@contextmanager
def uses_kernel(expected: bool) -> Iterator[None]:
    with Recorder() as recorder:
        yield
    assert (FLASH in recorder.called) is expected


def heads(dtype: torch.dtype = torch.float32, queries: int = 5, keys: int = 7) -> Inputs:
    """Query, key and value of two batches, three heads and four features. The heads of the queries lie interleaved."""
    torch.manual_seed(0)
    return (
        torch.randn(2, queries, 3, 4, dtype=dtype).transpose(1, 2),
        torch.randn(2, 3, keys, 4, dtype=dtype),
        torch.randn(2, 3, keys, 4, dtype=dtype),
    )


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def exported(function: Callable[..., Any], inputs: Inputs) -> fx.GraphModule:
    """The graph as `torch.export` gives it, without what `capture` guards."""
    return torch.export.export(Function(function), inputs).module()


def through_dynamo(function: Callable[..., Any], inputs: Inputs) -> fx.GraphModule:
    """The graph that Dynamo hands to a backend, in functions and methods of torch."""
    graphs: list[fx.GraphModule] = []

    def keep(graph_module: fx.GraphModule, _: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=keep, fullgraph=True)(*inputs)
    return graphs[0]


def fusions(module: fx.GraphModule) -> list[FusedAttention]:
    return [each for each in module.modules() if isinstance(each, FusedAttention)]


def causal(value: float = -math.inf) -> torch.Tensor:
    """Added to scores of five queries and seven keys: each row leaves some."""
    return torch.triu(torch.full((5, 7), value), 3)


def hidden() -> torch.Tensor:
    return torch.triu(torch.ones(5, 7), 3).bool()


def multiplied(scores: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, -1) @ value


ATTEND: dict[str, Callable[..., torch.Tensor]] = {
    "plain": lambda q, k, v: multiplied(q @ k.transpose(-2, -1), v),
    "mT": lambda q, k, v: multiplied(torch.matmul(q, k.mT), v),
    "divided": lambda q, k, v: multiplied(q @ k.transpose(-2, -1) / math.sqrt(4), v),
    "times": lambda q, k, v: multiplied(0.5 * (q @ k.transpose(-2, -1)), v),
    "times and divided": lambda q, k, v: multiplied(q @ k.transpose(-2, -1) * 3 / 4.0, v),
    "in place": lambda q, k, v: multiplied((q @ k.transpose(-2, -1)).div_(2.0).add_(causal(-1e9)), v),
    "scaled query": lambda q, k, v: multiplied((q * 0.5) @ k.transpose(-2, -1), v),
    "a scale below zero": lambda q, k, v: multiplied(q @ k.mT * -0.5, v),
    "added": lambda q, k, v: multiplied(q @ k.transpose(-2, -1) / 2 + causal(-1e9), v),
    "added first": lambda q, k, v: multiplied(causal(-3.0) + q @ k.transpose(-2, -1) / 2, v),
    "added minus infinity": lambda q, k, v: multiplied(q @ k.transpose(-2, -1) / 2 + causal(), v),
    "subtracted": lambda q, k, v: multiplied(q @ k.transpose(-2, -1) / 2 - hidden().float() * 1e9, v),
    "masked_fill": lambda q, k, v: multiplied((q @ k.transpose(-2, -1) / 2).masked_fill(hidden(), -math.inf), v),
    "masked_fill, finite": lambda q, k, v: multiplied((q @ k.mT / 2).masked_fill(hidden(), -1e9), v),
    "masked_fill in place": lambda q, k, v: multiplied((q @ k.mT / 2).masked_fill_(hidden() == 1, -1e9), v),
    "masked_fill of the smallest": lambda q, k, v: multiplied(
        (q @ k.mT / 2).masked_fill(hidden(), torch.finfo(q.dtype).min), v
    ),
    "where": lambda q, k, v: multiplied(torch.where(~hidden(), q @ k.mT / 2, -math.inf), v),
    "where the other way": lambda q, k, v: multiplied(torch.where(hidden(), -1e9, q @ k.mT / 2), v),
    "where with a tensor": lambda q, k, v: multiplied(torch.where(hidden(), torch.tensor(-1e9), q @ k.mT / 2), v),
    "two masks": lambda q, k, v: multiplied((q @ k.mT / 2).masked_fill(hidden(), -math.inf) + causal(-2.0), v),
    "scaled after the mask": lambda q, k, v: multiplied(
        ((q @ k.mT + causal(-5.0)).masked_fill(hidden(), -1e9)) * 0.5, v
    ),
    "mask for each batch": lambda q, k, v: multiplied(q @ k.mT + torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), v),
    "mask for the keys": lambda q, k, v: multiplied(q @ k.mT + torch.arange(7.0), v),
    "einsum": lambda q, k, v: torch.einsum(
        "bhqk,bhkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).mul(0.5).softmax(-1), v
    ),
    "einsum with dots": lambda q, k, v: torch.einsum(
        "...qk,...kd->...qd", torch.einsum("...qd, ...kd -> ...qk", q, k).softmax(dim=-1), v
    ),
    "einsum, keys first": lambda q, k, v: torch.einsum(
        "bhkd,bhqk->bhqd", v, torch.einsum("bhkd,bhqd->bhqk", k, q).softmax(-1)
    ),
    "einsum, heads behind": lambda q, k, v: torch.einsum(
        "bhqk,bkhd->bqhd",
        torch.einsum("bqhd,bkhd->bhqk", q.transpose(1, 2), k.transpose(1, 2)).softmax(-1),
        v.transpose(1, 2),
    ),
    "bmm": lambda q, k, v: torch.bmm(
        functional.softmax(torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2)), dim=2), v.flatten(0, 1)
    ),
    "baddbmm": lambda q, k, v: torch.bmm(
        torch.baddbmm(causal(), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=0.5).softmax(-1), v.flatten(0, 1)
    ),
    "one head": lambda q, k, v: multiplied(q[0, 0] @ k[0, 0].t() / 2 + causal(), v[0, 0]),
    "casts": lambda q, k, v: torch.softmax(q @ k.mT, -1, dtype=q.dtype).type_as(q) @ v,
    "dropout that is off": lambda q, k, v: functional.dropout((q @ k.mT).softmax(-1), 0.5, training=False) @ v,
}


@pytest.mark.parametrize("capture", [exported, through_dynamo])
@pytest.mark.parametrize("name", ATTEND)
def test_every_form_is_fused(name: str, capture: Callable[..., fx.GraphModule]) -> None:
    function, inputs = ATTEND[name], heads()
    module = capture(function, inputs)
    result = run_pass("attention_fusion", module)
    assert [rewrite.rule for rewrite in result.rewrites] == ["attention_fusion/attention"]
    assert not result.refusals
    assert not any("softmax" in name for name in operations(module))
    with uses_kernel(True):
        found = module(*ordered(module, inputs))
    found, expected = found[0] if isinstance(found, tuple) else found, function(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert found.stride() == expected.stride()
    assert not run_pass("attention_fusion", module).changed


def ordered(module: fx.GraphModule, inputs: Inputs) -> Inputs:
    """Dynamo takes inputs in the order in which they are used."""
    names = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
    return tuple(inputs["qkv".index(name.strip("L_").lower())] for name in names) if "L_q_" in names else inputs


SPECIAL = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e20, 1e-40)


@pytest.mark.parametrize("name", ATTEND)
def test_special_values_stay_what_they_are_in_every_form(name: str) -> None:
    """NaN and infinities that come in, and sums that overflow before they are scaled or after."""
    function = ATTEND[name]
    module = exported(function, heads())
    assert run_pass("attention_fusion", module).changed
    for number in range(3):
        for value in SPECIAL:
            inputs = heads()
            inputs[number][0, 0, 1, 3] = value
            inputs[number][1, 2, 2] = value
            same_to_the_infinities(module(*inputs), function(*inputs))


@pytest.mark.parametrize("length", [5, 16, 33, 600])
@pytest.mark.parametrize("value", SPECIAL)
def test_special_values_stay_what_they_are_at_every_length(length: int, value: float) -> None:
    function = ATTEND["divided"]
    module = exported(function, heads(queries=length, keys=length))
    assert run_pass("attention_fusion", module).changed
    for number in range(3):
        inputs = heads(queries=length, keys=length)
        inputs[number][1, 1, length - 2, 0] = value
        same_to_the_infinities(module(*inputs), function(*inputs))


def same_to_the_infinities(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.isinf(), expected.isinf())
    scale = float(expected[expected.isfinite()].abs().max()) if expected.isfinite().any() else 0.0
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4 * scale, equal_nan=True)


LARGEST = torch.finfo(torch.float32).max

MASKS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], bool]] = {
    "some rows without a key, -inf": (lambda m: m.index_fill(0, torch.tensor([1]), -math.inf), False),
    "some rows without a key, -1e9": (lambda m: m.index_fill(0, torch.tensor([1]), -1e9), True),
    "some rows without a key, -1e4": (lambda m: m.index_fill(0, torch.tensor([1]), -1e4), False),
    "some rows without a key, the smallest": (lambda m: m.index_fill(0, torch.tensor([1]), -LARGEST), True),
    "all rows without a key": (lambda m: m - math.inf, False),
    "one key hidden": (lambda m: m.index_fill(1, torch.tensor([3]), -math.inf), True),
    "NaN": (lambda m: m.index_fill(1, torch.tensor([3]), math.nan), False),
    "infinity": (lambda m: m.index_fill(1, torch.tensor([3]), math.inf), False),
    "large and positive": (lambda m: m + 1e8, False),
    "small": (lambda m: m + torch.linspace(-3, 3, 35).view(5, 7), True),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("queries", [5])
def test_masks_that_come_from_outside(name: str, queries: int) -> None:
    """Whatever a caller masks: rows with nothing left are what they were, and what is safe takes the kernel."""
    make, safe = MASKS[name]

    def added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return multiplied(q @ k.mT / 2 + mask, v)

    inputs, mask = heads(), torch.zeros(5, 7)
    module = exported(added, (*inputs, mask))
    assert run_pass("attention_fusion", module).changed
    mask = make(mask)
    with uses_kernel(safe):
        found = module(*inputs, mask)
    same_to_the_infinities(found, added(*inputs, mask))


@pytest.mark.parametrize("fill", [-math.inf, -1e9, -1e4, -20.0, 5.0, math.inf, math.nan, -LARGEST])
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_what_is_filled_in_counts_where_nothing_else_is_left(fill: float, rows: int) -> None:
    def filled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return multiplied((q @ k.mT / 2).masked_fill(hidden, fill), v)

    inputs, mask = heads(), hidden()
    module = exported(filled, (*inputs, mask))
    assert run_pass("attention_fusion", module).changed
    mask[:rows] = True
    with uses_kernel(fill <= -1e4 and not rows):
        found = module(*inputs, mask)
    same_to_the_infinities(found, filled(*inputs, mask))


def test_a_mask_added_to_what_was_filled_in_may_bring_it_back() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return multiplied((q @ k.mT / 2).masked_fill(hidden(), -110.0) + mask, v)

    inputs = heads()
    module = exported(function, (*inputs, torch.zeros(5, 7)))
    assert run_pass("attention_fusion", module).changed
    for value in (0.0, 50.0, 110.0, math.nan, math.inf, -math.inf):
        mask = torch.zeros(5, 7)
        mask[0, 6] = value
        same_to_the_infinities(module(*inputs, mask), function(*inputs, mask))


def test_the_smallest_numbers_as_padding_give_the_gradients_of_the_formula() -> None:
    """A row that is masked throughout with finite numbers: the kernel's gradient is wrong by the number of keys."""
    function = lambda q, k, v: multiplied(  # noqa: E731
        q @ k.mT / 2 + torch.zeros(5, 7).index_fill(0, torch.tensor([1]), -LARGEST), v
    )
    inputs = tuple(tensor.requires_grad_() for tensor in heads())
    module = exported(function, inputs)
    assert run_pass("attention_fusion", module).changed
    found, expected = (torch.autograd.grad(each(*inputs).square().sum(), inputs) for each in (module, function))
    for got, wanted in zip(found, expected, strict=True):
        assert torch.equal(got, wanted)


def test_every_derivative_is_there() -> None:
    function = ATTEND["masked_fill"]
    inputs = tuple(tensor[:1, :1].clone().requires_grad_() for tensor in heads(torch.float64))
    module = exported(function, inputs)
    assert run_pass("attention_fusion", module).changed
    assert torch.autograd.gradcheck(module, inputs, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(module, inputs)
    with torch.no_grad(), forward_ad.dual_level(), uses_kernel(False):
        dual = forward_ad.make_dual(inputs[0].detach(), torch.ones_like(inputs[0]))
        tangent = forward_ad.unpack_dual(module(dual, *inputs[1:])).tangent
        expected = forward_ad.unpack_dual(function(dual, *inputs[1:])).tangent
    torch.testing.assert_close(tangent, expected)
    plain = tuple(tensor.detach() for tensor in inputs)
    for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        found, wanted = (transform(each, argnums=1)(*plain) for each in (module, function))
        torch.testing.assert_close(found, wanted)
    stacked = tuple(torch.stack([tensor, tensor + 1]) for tensor in plain)
    with torch.no_grad(), uses_kernel(False):
        torch.testing.assert_close(torch.func.vmap(module)(*stacked), torch.func.vmap(function)(*stacked))


def test_autocast_other_dtypes_and_empty_tensors_get_the_formula() -> None:
    function, inputs = ATTEND["divided"], heads()
    module = exported(function, inputs)
    assert run_pass("attention_fusion", module).changed
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(*inputs), function(*inputs))
    halves = tuple(tensor.bfloat16() for tensor in inputs)
    (fused,) = fusions(module)
    assert torch.equal(fused(halves[0], halves[1].mT, halves[2]), function(*halves))
    for empty in ((inputs[0][:0], inputs[1][:0], inputs[2][:0]), (inputs[0], inputs[1][:, :, :0], inputs[2][:, :, :0])):
        assert torch.equal(fused(empty[0], empty[1].mT, empty[2]), function(*empty))
    # Broadcast in a call that the capture did not see.
    wide = (inputs[0], inputs[1][:1], inputs[2])
    assert torch.equal(fused(wide[0], wide[1].mT, wide[2]), function(*wide))


def test_few_scores_get_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for length, expected in ((32, False), (512, True)):
        function, inputs = ATTEND["divided"], heads(queries=length, keys=length)
        module = exported(function, inputs)
        assert run_pass("attention_fusion", module).changed
        with uses_kernel(expected):
            torch.testing.assert_close(module(*inputs), function(*inputs), rtol=1e-4, atol=1e-5)


def test_double_precision_is_fused() -> None:
    function, inputs = ATTEND["where"], heads(torch.float64)
    module = exported(function, inputs)
    assert run_pass("attention_fusion", module).changed
    with uses_kernel(True):
        torch.testing.assert_close(module(*inputs), function(*inputs))


def test_the_result_can_be_copied_interpreted_traced_exported_and_compiled() -> None:
    function, inputs = ATTEND["masked_fill"], heads()
    module = exported(function, inputs)
    assert run_pass("attention_fusion", module).changed
    expected = function(*inputs)
    for other in (copy.deepcopy(module), lambda *given: fx.Interpreter(module).run(*given)):
        with uses_kernel(True):
            torch.testing.assert_close(other(*inputs), expected)
    (fused,) = fusions(module)
    assert [operand.input for operand in fused.operands] == [0, 1, 3]
    given = (inputs[0], inputs[1].mT, hidden(), inputs[2])
    for traced in (fx.symbolic_trace(fused.written), through_dynamo(fused, given)):
        called = " ".join(operations(traced))
        assert "softmax" in called
        assert "scaled_dot_product" not in called
    program = torch.export.export(module, inputs).module()
    with uses_kernel(False):
        assert torch.equal(program(*inputs), expected)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(module, backend="aot_eager")(*inputs), expected)


def tensor_scale(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return multiplied(q @ k.mT * q.sum(), v)


def broadcast(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return multiplied(q @ k[:, :1].mT, v)


def widened(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return multiplied(q[:1] @ k[:1].mT + torch.ones(2, 1, 1, 1) * q[:, :1, :1, :1], v[:1])


NOT: dict[str, tuple[Callable[..., Any], str, str | None]] = {
    "softmax over the queries": (
        lambda q, k, v: torch.softmax(q @ k.mT, -2) @ v,
        "the softmax runs over dimension -2, which is not that of the keys",
        "the softmax runs over the keys",
    ),
    "keys of one head for all": (broadcast, "differ in their batch dimensions", None),
    "half precision": (
        lambda q, k, v: multiplied(q.bfloat16() @ k.bfloat16().mT, v.bfloat16()),
        "computed in torch.bfloat16",
        None,
    ),
    "softmax in double precision": (
        lambda q, k, v: torch.softmax(q @ k.mT, -1, dtype=torch.float64).float() @ v,
        "in torch.float32 and torch.float64",
        None,
    ),
    "a scale that is computed": (tensor_scale, "and no number", "the scale is a number"),
    "a scale that overflows": (
        lambda q, k, v: multiplied(q @ k.mT * 1e38 * 1e-38, v),
        "multiplied by 1, 1e.38, 1e-38",
        "the scale is a number",
    ),
    "a mask that widens": (widened, "not known to fit the scores", None),
    "what is filled in has a shape": (
        lambda q, k, v: multiplied(torch.where(hidden(), causal(-3.0), q @ k.mT), v),
        "no single number",
        "what is filled in is a number",
    ),
    "weights that are returned": (
        lambda q, k, v: ((weights := torch.softmax(q @ k.mT, -1)) @ v, weights),
        "is also used by output",
        None,
    ),
    "scores that are used": (lambda q, k, v: (s := q @ k.mT, multiplied(s, v)), "is also used by", None),
    "dropout that is on": (
        lambda q, k, v: functional.dropout(torch.softmax(q @ k.mT, -1), 0.5) @ v,
        "draws from the random stream",
        None,
    ),
    "capped scores": (
        lambda q, k, v: multiplied(torch.tanh(q @ k.mT / 30) * 30, v),
        "tanh stands between the product of query and keys and the softmax",
        None,
    ),
    "NaN replaced": (
        lambda q, k, v: torch.softmax(q @ k.mT, -1).nan_to_num(0.0) @ v,
        "nan_to_num stands between the softmax and the product with the values",
        None,
    ),
    "a number divided": (
        lambda q, k, v: multiplied(2.0 / (q @ k.mT), v),
        "neither mask nor scale|reciprocal stands between",
        None,
    ),
    "a number added": (lambda q, k, v: multiplied(q @ k.mT + 1.0, v), "neither mask nor scale", None),
    "subtracted the other way": (
        lambda q, k, v: multiplied(causal(-1.0) - q @ k.mT, v),
        "neither mask nor scale",
        None,
    ),
    "scores added to themselves": (
        lambda q, k, v: multiplied((s := q @ k.mT) + s, v),
        "is used a second time in the formula",
        None,
    ),
    "weights as their own values": (
        lambda q, k, v: (w := torch.softmax(q @ q.mT, -1)) @ w,
        "is used a second time in the formula",
        None,
    ),
    "the softmax of masked scores that are masked by themselves": (
        lambda q, k, v: multiplied((s := q @ k.mT).masked_fill(s < 0, -math.inf), v),
        "is also used by",
        None,
    ),
    "einsum over the heads": (
        lambda q, k, v: torch.einsum("bqk,bhkd->bqd", torch.einsum("bhqd,bhkd->bqk", q, k).softmax(-1), v),
        "no product of queries and keys for each head",
        None,
    ),
    "einsum that shares the values": (
        lambda q, k, v: torch.einsum("bhqk,bkd->bhqd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1), v[:, 0]),
        "does not sum over the keys for each head",
        None,
    ),
}


@pytest.mark.parametrize("name", NOT)
@pytest.mark.parametrize("capture", [exported, through_dynamo])
def test_what_is_no_such_attention_stays_for_one_plain_reason(
    name: str, capture: Callable[..., fx.GraphModule]
) -> None:
    function, reason, check = NOT[name]
    module = capture(function, heads())
    result = run_pass("attention_fusion", module)
    assert not result.changed
    (refusal,) = result.refusals
    assert re.search(reason, refusal.reason)
    if check is None:
        return
    inputs = tuple(tensor * 9 for tensor in heads())
    expected = function(*inputs)
    with disabled(f"attention_fusion: {check}"):
        assert run_pass("attention_fusion", module).changed
    try:
        with uses_kernel(True):
            found = module(*ordered(module, inputs))
    except ValueError:
        return
    found = found[0] if isinstance(found, tuple) else found
    assert not torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_real_models_are_fused_layer_by_layer(name: str) -> None:
    model, inputs = with_attention_written_out(name)
    report = GraphOptimizer(model, inputs).optimize(["attention_fusion", "dead_code"]).report
    assert report.equivalence
    assert sum(rewrite.rule == "attention_fusion/attention" for rewrite in report.rewrites) == 2
    assert len(fusions(report.graphs[0].result.graph_module)) == 2


def test_grouped_heads_are_fused_as_they_are_repeated_and_padding_keeps_its_gradients() -> None:
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
        use_cache=False,
    )
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, :3] = 0
    inputs = {"inputs_embeds": torch.randn(2, 8, 32, requires_grad=True), "attention_mask": mask}
    report = GraphOptimizer(LlamaModel(config).eval(), inputs).optimize(["attention_fusion", "dead_code"]).report
    assert report.equivalence
    assert not report.denied
    assert len(fusions(report.graphs[0].result.graph_module)) == 1


def test_training_with_dropout_is_left_alone() -> None:
    model, inputs = with_attention_written_out("bert")
    report = GraphOptimizer(model.train(), inputs).optimize(["attention_fusion"]).report
    assert not report.rewrites
    assert [refusal.reason for _, refusal in report.refusals if "softmax" in refusal.node] == [
        f"attention: {name} draws from the random stream" for name in ("dropout_1", "dropout_4")
    ]


@pytest.mark.parametrize("capture", ["export", "dynamo"])
@pytest.mark.parametrize("name", ["masked_fill", "where", "einsum", "added minus infinity"])
def test_the_default_preset_fuses_and_verification_sees_the_kernel(name: str, capture: str) -> None:
    assert "attention_fusion" in PRESETS["inference"]
    torch._dynamo.reset()
    result = GraphOptimizer(Function(ATTEND[name]), heads(), capture=capture).optimize()
    assert result.report.equivalence
    assert not result.report.denied
    (graph,) = result.report.graphs
    assert len(fusions(graph.result.graph_module)) == 1
    if capture == "export":
        # The error says that the comparison saw the kernel.
        assert 0 < result.report.equivalence.largest_error < 1e-4


def test_the_comparison_sees_special_values_under_a_tolerance() -> None:
    """The kernel alone, as a pass may put it in: it gives 0 where the formula gives NaN."""

    def kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, scale=1.0).contiguous()

    difference = check_equivalence(ATTEND["plain"], kernel, heads(), tolerance=AttentionFusion.tolerance)
    assert not difference
    assert difference.differences[0].case == "special values"
