"""Attention that is written out, in every form, becomes the fused operator, and what only looks like it does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes.programs import aten, operations
from real_models import with_attention_written_out
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from fxopt_core.capture.whole import capture_whole
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import disabled, run_pass
from fxopt_core.passes.attention_fusion import FORMS, Form

FUSED = "scaled_dot_product_attention.default"
Inputs = tuple[torch.Tensor, ...]


def heads(dtype: torch.dtype = torch.float32) -> Inputs:
    """Query, transposed keys, value of two batches, three heads, five queries and seven keys."""
    torch.manual_seed(0)
    return (
        torch.randn(2, 3, 5, 4, dtype=dtype),
        torch.randn(2, 3, 4, 7, dtype=dtype),
        torch.randn(2, 3, 7, 6, dtype=dtype),
    )


def attention(form: Form, **given: Any) -> Callable[..., torch.Tensor]:
    """A function that computes attention in one form."""
    more = {
        "scale": 0.3,
        "upcast": torch.float32,
        "cast": torch.float32,
        "probability": 0.5,
        "training": False,
        **given,
    }

    def function(query: torch.Tensor, keys: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        blocked = torch.arange(7) > torch.arange(5)[:, None] + 2
        mask = torch.where(blocked, given.get("blocked", -3e4), 0.0)
        dimension = given.get("dimension", -1)
        return form.attend(query, keys, value, dimension, given.get("dtype"), {"mask": mask, **more})

    return function


def exported(function: Callable[..., Any], inputs: Inputs) -> fx.GraphModule:
    return capture_whole(function, inputs, "export").graph_module


def as_written(function: Callable[..., Any], inputs: Inputs) -> fx.GraphModule:
    """The graph of a function, call by call: export takes a cast that does nothing for the value that it casts."""
    module = fx.symbolic_trace(function)
    FakeTensorProp(module, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*inputs)
    return module


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form_is_fused(form: Form) -> None:
    inputs = heads()
    function = attention(form)
    module = as_written(function, inputs)
    result = run_pass("attention_fusion", module)
    assert [rewrite.rule for rewrite in result.rewrites] == [f"attention_fusion/{form.name}"]
    assert FUSED in operations(module)
    assert "softmax.int" not in operations(module)
    torch.testing.assert_close(module(*inputs), function(*inputs), rtol=1e-5, atol=1e-6)
    assert not run_pass("attention_fusion", module).changed


@pytest.mark.parametrize("dimension", [-1, 3])
def test_double_precision_three_dimensions_and_empty_batches_are_fused(dimension: int) -> None:
    form = FORMS[-1]
    for inputs in (heads(torch.float64), tuple(tensor[:0] for tensor in heads())):
        module = exported(attention(form, dimension=dimension), inputs)
        assert run_pass("attention_fusion", module).changed
        torch.testing.assert_close(module(*inputs), attention(form)(*inputs))
    flat = tuple(tensor[0] for tensor in heads())
    module = exported(attention(form), flat)
    assert run_pass("attention_fusion", module).changed
    torch.testing.assert_close(module(*flat), attention(form)(*flat), rtol=1e-5, atol=1e-6)


def test_gradients_flow() -> None:
    inputs = tuple(tensor.requires_grad_() for tensor in heads())
    function = attention(FORMS[0])
    module = exported(function, inputs)
    run_pass("attention_fusion", module)
    found = torch.autograd.grad(module(*inputs).square().sum(), inputs)
    wanted = torch.autograd.grad(function(*inputs).square().sum(), inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


PLAIN = Form("", False, False, "", False)
TIMES = Form("times", False, False, "", False)
MASKED = Form("", True, False, "", False)


def tensor_scale(query: torch.Tensor, keys: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return attention(TIMES, scale=query.sum())(query, keys, value)


NOT: dict[str, tuple[Callable[..., torch.Tensor], Inputs, str]] = {
    "softmax over the queries": (attention(PLAIN, dimension=-2), heads(), "shapes are those of attention"),
    "half precision": (attention(PLAIN), heads(torch.bfloat16), "single or double precision"),
    "a scale that is computed": (tensor_scale, heads(), "the scale is a number"),
    "rows masked with infinity": (attention(MASKED, blocked=-math.inf), heads(), "the mask adds finite numbers"),
}


def all_masked(module: fx.GraphModule) -> fx.GraphModule:
    """Let the mask block every key of a row: what a caller's padding may do."""
    for node in module.graph.nodes:
        if node.target is aten.gt.Tensor:
            with module.graph.inserting_after(node):
                ones = module.graph.call_function(aten.ones_like.default, (node,))
            node.replace_all_uses_with(ones, delete_user_cb=lambda user, ones=ones: user is not ones)
    module.recompile()
    return module


@pytest.mark.parametrize("name", NOT)
def test_what_is_no_such_attention_stays_and_its_check_is_needed(name: str) -> None:
    function, inputs, check = NOT[name]
    module = exported(function, inputs)
    result = run_pass("attention_fusion", module)
    assert not result.changed
    assert result.refusals
    wanted = all_masked(exported(function, inputs))(*inputs)
    with disabled(f"attention_fusion: {check}"):
        try:
            assert run_pass("attention_fusion", module).changed
            found = all_masked(module)(*inputs)
        except (RuntimeError, TypeError):
            return
    scale = float(wanted.nan_to_num().abs().max()) or 1.0
    assert not torch.allclose(found, wanted, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_real_models_are_fused_layer_by_layer(name: str) -> None:
    model, inputs = with_attention_written_out(name)
    optimizer = GraphOptimizer(model, inputs)
    report = optimizer.optimize(["attention_fusion", "dead_code"]).report
    assert report.equivalence
    assert sum(rewrite.rule.startswith("attention_fusion") for rewrite in report.rewrites) == 2
    assert operations(report.graphs[0].result.graph_module).count(FUSED) == 2


def test_grouped_heads_are_fused_as_they_are_repeated() -> None:
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
    inputs = {"input_ids": torch.randint(3, 50, (2, 8))}
    optimizer = GraphOptimizer(LlamaModel(config).eval(), inputs)
    report = optimizer.optimize(["attention_fusion", "dead_code"]).report
    assert report.equivalence
    assert operations(report.graphs[0].result.graph_module).count(FUSED) == 1


def test_training_with_dropout_is_left_alone() -> None:
    model, inputs = with_attention_written_out("bert")
    report = GraphOptimizer(model.train(), inputs).optimize(["attention_fusion"]).report
    assert not report.rewrites
    assert any("draws from the random stream" in refusal.reason for _, refusal in report.refusals)


@pytest.mark.parametrize(
    ("mask", "fused"),
    [
        (lambda keep: (1.0 - keep.to(torch.float32)) * -1e4, True),
        (lambda keep: torch.where(keep, 0.0, torch.finfo(torch.float32).min), True),
        (lambda keep: torch.where(keep, 0.0, torch.finfo(torch.float32).min) * 2, False),
        (lambda keep: torch.where(keep, 0.0, -math.inf), False),
        (lambda keep: torch.log(keep.to(torch.float32)), False),
    ],
)
def test_masks_are_followed_to_what_they_are_made_of(mask: Callable[[torch.Tensor], torch.Tensor], fused: bool) -> None:
    def function(query: torch.Tensor, keys: torch.Tensor, value: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return torch.softmax(query @ keys + mask(keep), -1) @ value

    inputs = (*heads(), torch.ones(5, 7, dtype=torch.bool))
    assert run_pass("attention_fusion", exported(function, inputs)).changed is fused
