"""What only a backward pass, another mode or a later call shows: it is followed, refused or told, never silent."""

from __future__ import annotations

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fxopt_core.capture import capture
from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.optimizer import GraphOptimizer

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4)
CALLS = 4


class Reversed(torch.autograd.Function):
    """The identity, with the gradient turned round."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


class Adversarial(nn.Module):
    """Gradient reversal before a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(Reversed.apply(x))


class Hooked(Adversarial):
    """A tensor hook on the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        if x.requires_grad:
            x.register_hook(lambda gradient: 3 * gradient)
        return self.layer(x)


def gradient(function: Any) -> torch.Tensor | None:
    """Of the sum of what it gives for `X`; `None` where a backward pass raises."""
    x = X.clone().requires_grad_()
    try:
        result = function(x)
    except RefusedInputError:
        return None
    if not result.requires_grad:
        with pytest.raises(RuntimeError, match="does not require grad"):
            result.sum().backward()
        return None
    result.sum().backward()
    return x.grad


@pytest.mark.parametrize("kind", [Adversarial, Hooked])
@pytest.mark.parametrize("method", ["auto", "export"])
def test_a_gradient_that_a_graph_has_lost_is_told_and_not_given(kind: type[nn.Module], method: str) -> None:
    model = kind()
    captured = capture(model, (X,), method)
    assert torch.equal(captured.run(X), model(X))
    found = gradient(captured.run)
    if found is None:
        told = ("Its gradients are not the model's", "It refuses the example, called again with gradients")
        assert any(caveat.startswith(told) for caveat in captured.caveats)
    else:
        assert torch.allclose(found, gradient(model))


@pytest.mark.parametrize("kind", [Adversarial, Hooked])
def test_the_optimizer_takes_a_way_that_keeps_the_gradient(kind: type[nn.Module]) -> None:
    model = kind()
    result = GraphOptimizer(model, (X,)).optimize("inference")
    assert torch.allclose(gradient(result.module), gradient(model))


def test_where_gradients_agree_calls_record_them() -> None:
    model = nn.Linear(4, 4)
    captured = capture(model, (X,), "auto")
    assert torch.allclose(gradient(captured.run), gradient(model))


class Counting(nn.Module):
    """Gives `x` times what it keeps somewhere, which each call changes."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.number, self.values, self.table = 0, [1.0], {"last": 1.0}
        self.queue, self.held = deque([1.0]), SimpleNamespace(calls=0)
        self.generator = torch.Generator().manual_seed(7)
        self.own, self.of_numpy = random.Random(7), np.random.default_rng(7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "number":
            self.number += 1
            return x * self.number
        if self.kind == "list":
            self.values.append(1.0)
            return x * sum(self.values)
        if self.kind == "dictionary":
            self.table["last"] = self.table["last"] + 1
            return x * self.table["last"]
        if self.kind == "deque":
            self.queue.append(1.0)
            return x * sum(self.queue)
        if self.kind == "object":
            self.held.calls += 1
            return x * self.held.calls
        if self.kind == "generator":
            return x + torch.rand(4, generator=self.generator)
        if self.kind == "numpy":
            return x * float(self.of_numpy.random())
        return x * self.own.random()


KINDS = ("number", "list", "dictionary", "deque", "object", "generator", "numpy")


def calls_of(function: Any) -> list[torch.Tensor]:
    return [function(X.clone()) for _ in range(CALLS)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimized_module_follows_a_changing_state(kind: str) -> None:
    model = Counting(kind)
    result = GraphOptimizer(model, (X,)).optimize("inference")
    found, expected = calls_of(result.module), calls_of(Counting(kind))
    assert all(torch.allclose(*pair) for pair in zip(found, expected, strict=True))
    # And nothing has moved in the caller's own.
    assert all(torch.equal(*pair) for pair in zip(calls_of(model), expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_no_capture_repeats_its_first_call_in_silence(kind: str) -> None:
    model = Counting(kind)
    captured = capture(model, (X,), "auto")
    expected = calls_of(Counting(kind))
    for number, want in enumerate(expected):
        try:
            got = captured.run(X.clone())
        except RuntimeError:
            assert number > 0, "it refuses even the example"
            break
        assert torch.allclose(got, want)
    assert all(torch.equal(*pair) for pair in zip(calls_of(model), expected, strict=True))


_CALLS = 0


def test_a_global_counter_is_put_back() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        global _CALLS
        _CALLS += 1
        return x * _CALLS

    captured = capture(model, (X,), "auto")
    assert _CALLS == 0
    assert any(one.refusal for one in captured.agreements)


def test_default_generators_stay_where_they_are() -> None:
    class Drawing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * random.random() + torch.rand(4) + float(np.random.rand())

    before = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].tolist()
    for run in (lambda: capture(Drawing(), (X,), "dynamo"), lambda: GraphOptimizer(Drawing(), (X,))):
        run()
        after = random.getstate(), torch.get_rng_state(), np.random.get_state()[1].tolist()
        assert before[0] == after[0]
        assert torch.equal(before[1], after[1])
        assert before[2] == after[2]


class SelfAttention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)

    def forward(self, x: torch.Tensor) -> Any:
        return self.attention(x, x, x)


@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_with_a_fused_path_for_inference_falls_to_a_way_that_has_both(batch_first: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for model, inputs in (
        (nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first).eval(), (x,)),
        (SelfAttention(batch_first).eval(), (x,)),
    ):
        module = GraphOptimizer(model, inputs).optimize("inference").module
        for mode in (torch.no_grad, torch.enable_grad):
            with mode():
                found, expected = (torch.utils._pytree.tree_leaves(one(*inputs)) for one in (module, model))
                for pair in zip(found, expected, strict=True):
                    torch.testing.assert_close(*pair)
