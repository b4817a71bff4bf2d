"""Each kind of difference is seen where it is the only one, and equal functions are equal."""

from __future__ import annotations

import copy
import json
import queue
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fxopt_core.verification import EXACT, Tolerance, check_equivalence
from fxopt_core.verification.cases import Case
from fxopt_core.verification.observation import observe
from fxopt_core.verification.state import State

X = torch.linspace(-2.0, 2.0, 6).reshape(2, 3)
GRAD = X.clone().requires_grad_()
IN_A_ROW = (
    "as given",
    "as given, called again with gradients of all inputs",
    "as given, called again without gradients",
)
MADE = ("fresh values", "zeros of both signs", "special values", "special values, without gradients")
Behaviour = Callable[["Stateful", torch.Tensor], Any]


class Stateful(nn.Module):
    """Has everything that a call can change."""

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(()))
        self.plain = torch.zeros(2)
        self.calls = 0
        self.cache = {"last": [torch.zeros(3)]}
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.behaviour(self, x)


def doing(*changes: Callable[[Stateful, torch.Tensor], Any]) -> Stateful:
    """A module that does something besides computing `x * weight`."""

    def behaviour(module: Stateful, x: torch.Tensor) -> torch.Tensor:
        for change in changes:
            change(module, x)
        return x * module.weight

    return Stateful(behaviour)


def function(*changes: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that does something besides computing `x + 1`."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        result = x + 1
        for change in changes:
            change(x)
        return result

    return compute


class Weighted(nn.Module):
    """Has a weight and nothing else."""

    def __init__(self, weight: float = 1.0, factor: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), weight))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight * self.factor)


@dataclass
class Result:
    """A result of a class that no pytree knows."""

    value: torch.Tensor
    count: int


class Cache:
    """An object that a model hands out."""

    def __init__(self, *layers: torch.Tensor) -> None:
        self.layers = list(layers)


def raising(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no")


def raising_otherwise(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("no")


def overwritten(x: torch.Tensor) -> torch.Tensor:
    """Its backward pass raises, since it needs what was overwritten."""
    y = (x * 2).exp()
    z = y * 1
    y.mul_(2)
    return z


def one_view(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    view = x.view(-1)
    return view, view


def rebind(module: Stateful, x: torch.Tensor) -> None:
    module.count = module.count + 1


def keep_input(module: Stateful, x: torch.Tensor) -> None:
    module.plain = x


def autocast(x: torch.Tensor) -> None:
    torch.set_autocast_enabled("cpu", True)


CASES: dict[str, tuple[str, str, Any, Any, torch.Tensor]] = {
    "values": ("value", "output", lambda x: x * 2, lambda x: x * 2.0000002, X),
    "one value": ("value", "output", lambda x: x + 1, lambda x: (x + 1).index_fill(1, torch.tensor(2), 9), X),
    "sign of zero": ("value", "output", lambda x: x * 0.0, lambda x: (x * 0.0).abs(), X),
    "zero only shows it": ("value", "output", lambda x: x + 0.0, lambda x: x.clone(), X),
    "infinity only shows it": ("value", "output", lambda x: (x - x).detach(), lambda x: torch.zeros_like(x), X),
    "subnormal only shows it": (
        "value", "output", lambda x: x * 1, lambda x: torch.where(x.abs() < 1e-38, x * 0, x), X),
    "NaN only shows it": ("value", "output", lambda x: (x / x).detach(), lambda x: torch.ones_like(x), X),
    "integers": ("value", "output", lambda x: x * 2, lambda x: x * 2 + (x == 5).long(), torch.arange(6)),
    "conjugate": ("value", "output", lambda x: x.conj(), lambda x: x[:], torch.complex(X, X)),
    "imaginary part": ("value", "output", lambda x: x * 1, lambda x: x.real * (1 + 0j), torch.complex(X, X * 0)),
    "bfloat16": ("value", "output", lambda x: x * 2, lambda x: x * 2.02, X.bfloat16()),
    "float8": ("value", "output", lambda x: x.to(torch.float8_e5m2), lambda x: (x * 2).to(torch.float8_e5m2), X),
    "number": ("value", "output[1]", lambda x: (x + 1, 0.0), lambda x: (x + 1, -0.0), X),
    "type of a number": ("value", "output[1]", lambda x: (x + 1, 1), lambda x: (x + 1, True), X),
    "number or tensor": ("value", "output", lambda x: x.shape[0], lambda x: torch.tensor(x.shape[0]), X),
    "in an object": ("value", "output.count", lambda x: Result(x + 1, 1), lambda x: Result(x + 1, 2), X),
    "in a list of an object": ("value", "output.layers[0]", lambda x: Cache(x + 1), lambda x: Cache(x + 2), X),
    "list or tuple": ("structure", "the output", lambda x: [x + 1], lambda x: (x + 1,), X),
    "keys": ("structure", "the output", lambda x: {"a": x + 1}, lambda x: {"b": x + 1}, X),
    "class": ("structure", "the output", lambda x: Cache(x + 1), lambda x: Result(x + 1, 1), X),
    "length in an object": ("structure", "the output", lambda x: Cache(x + 1), lambda x: Cache(x + 1, x + 1), X),
    "dtype": ("dtype", "output", lambda x: x + 1, lambda x: (x + 1).double(), X),
    "shape": ("shape", "output", lambda x: x + 1, lambda x: (x + 1)[None], X),
    "shape of nothing": ("shape", "output", lambda x: x[:0] + 1, lambda x: x[:, :0] + 1, X),
    "stride": ("stride", "output", lambda x: x + 1, lambda x: (x + 1).t().contiguous().t(), X),
    "autograd": ("part in autograd", "output", lambda x: x + 1, lambda x: (x + 1).requires_grad_(), X),
    "input itself": ("aliasing", "output", lambda x: x.clone(), lambda x: x, X),
    "view": ("aliasing", "output", lambda x: x.view(-1).clone(), lambda x: x.view(-1), X),
    "view of another part": ("aliasing", "output", lambda x: x[0], lambda x: x[1], torch.ones(2, 3)),
    "view or itself": ("aliasing", "output", lambda x: x, lambda x: x[:], X),
    "shared by outputs": ("aliasing", "output[1]", lambda x: (x + 1, x + 1), lambda x: (x + 1,) * 2, X),
    "one view or two": ("aliasing", "output[1]", one_view, lambda x: (x.view(-1), x.view(-1)), X),
    "a buffer": (
        "aliasing", "output", Stateful(lambda self, x: self.norm.running_mean),
        Stateful(lambda self, x: self.norm.running_mean.clone()), X),
    "input kept": ("aliasing", "input[0]", doing(keep_input), doing(lambda m, x: keep_input(m, x.clone())), X),
    "input": ("mutation", "input[0]", function(lambda x: x.add_(1)), function(), X),
    "input through a view": ("mutation", "input[0]", function(lambda x: x[0].zero_()), function(), X),
    "shape of an input": ("mutation", "input[0]", function(lambda x: x.t_()), function(), X),
    "autograd of an input": ("mutation", "input[0]", function(lambda x: x.requires_grad_()), function(), X),
    "buffer": ("mutation", "count", doing(lambda m, x: m.count.add_(1)), doing(), X),
    "buffer that was left": ("mutation", "count", doing(), doing(lambda m, x: m.count.add_(1)), X),
    "buffer bound anew": ("mutation", "count", doing(rebind), doing(), X),
    "buffer that the other lacks": ("mutation", "count", doing(rebind), Weighted(), X),
    "buffer that only the other has": ("mutation", "count", Weighted(), doing(rebind), X),
    "plain tensor that was left": ("mutation", "plain", doing(), doing(lambda m, x: m.plain.add_(1)), X),
    "parameter": ("mutation", "norm.weight", doing(lambda m, x: m.norm.weight.data.mul_(1.5)), doing(), X),
    "plain tensor": ("mutation", "plain", doing(lambda m, x: m.plain.add_(1)), doing(), X),
    "number of a module": ("mutation", "calls", doing(lambda m, x: setattr(m, "calls", 3)), doing(), X),
    "nested tensor of a module": (
        "mutation", "cache['last'][0]", doing(lambda m, x: m.cache["last"][0].add_(1)), doing(), X),
    "longer list of a module": (
        "mutation", "cache['last'][1]", doing(lambda m, x: m.cache["last"].append(1)),
        doing(lambda m, x: m.cache["last"].append(2)), X),
    "attribute that is gone": ("mutation", "calls", doing(lambda m, x: delattr(m, "calls")), doing(), X),
    "training flag": ("training flag", "norm.training", doing(lambda m, x: m.norm.eval()), doing(), X),
    "draws": ("random state", "the CPU generator", lambda x: x + 0 * torch.rand(3), lambda x: x + 0, X),
    "draws of Python": (
        "random state", "the Python generator", function(lambda x: random.random()), function(), X),
    "grad mode": ("mode", "grad mode", function(lambda x: torch.set_grad_enabled(False)), function(), X),
    "autocast": ("mode", "autocast on cpu", function(autocast), function(), X),
    "default dtype": ("mode", "default dtype", function(lambda x: torch.set_default_dtype(torch.half)), function(), X),
    "gradient": ("gradient", "input[0]", lambda x: x * x, lambda x: x * x.detach(), GRAD),
    "gradient of a parameter": (
        "gradient", "weight", Stateful(lambda self, x: (x * self.weight, x * self.norm.weight)),
        Stateful(lambda self, x: (x * self.weight.detach() + 0 * self.norm.weight, x * self.norm.weight)), X),
    "none or zero": (
        "gradient", "weight", Stateful(lambda self, x: x * self.norm.weight + (self.weight - self.weight)),
        Stateful(lambda self, x: x * self.norm.weight + 0), X.abs() + 1),
    "gradient of what is written": (
        "gradient", "input[0]", doing(lambda m, x: setattr(m, "count", (x.exp() * m.weight).sum())),
        doing(lambda m, x: setattr(m, "count", (x.exp().detach() * m.weight).sum())), GRAD),
    "raises": ("exception", "the call", raising, lambda x: x, X),
    "raises only there": ("exception", "the call", lambda x: x, raising, X),
    "raises something else": ("exception", "the call", raising, raising_otherwise, X),
    "backward pass": ("exception", "the backward pass", overwritten, lambda x: (x * 2).exp(), GRAD),
}  # fmt: skip
"""Kind and place of the one difference, both functions, the input."""


@pytest.mark.parametrize("name", CASES)
def test_a_difference_is_seen_and_named(name: str) -> None:
    what, where, original, transformed, x = CASES[name]
    # Other values would add differences of other kinds.
    found = check_equivalence(original, transformed, (x,), adversarial=name.endswith("only shows it"))
    assert {(difference.what, difference.where) for difference in found.differences} == {(what, where)}, str(found)


RAISING_AGAIN = ("input", "input through a view", "shape of an input", "attribute that is gone")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] != "exception"])
def test_every_one_of_them_equals_itself(name: str) -> None:
    _, _, original, transformed, x = CASES[name]
    for same in (original, transformed):
        found = check_equivalence(same, same, (x,))
        assert found, str(found)
        further = {name for name in found.cases if name.startswith(("values powers of two apart", "negative integers"))}
        assert [name for name in found.cases if name not in further] == [*IN_A_ROW, *MADE]
        assert further or x.is_complex() or x.numel() < 2
        # Nobody writes into a leaf that asks for gradients, and an attribute is gone only once.
        assert "as given" not in found.raised
        assert not found.raised or name in RAISING_AGAIN
        assert found.largest_error == 0


def test_both_may_raise_in_the_backward_pass() -> None:
    assert check_equivalence(overwritten, overwritten, (GRAD,))


EQUAL: dict[str, tuple[Any, Any, Any]] = {
    "other names for the same": (lambda x: x + 1, lambda x: 1 + x, (X,)),
    "dropout": (functional.dropout, lambda x: functional.dropout(x, 0.5), (X,)),
    "the same write": (function(lambda x: x.add_(1)), function(lambda x: x.copy_(x + 1)), (X,)),
    "the same view": (lambda x: x.view(-1), lambda x: x.reshape(-1), (X,)),
    "nothing comes of nothing": (lambda x: x * 2, lambda x: x + x, (torch.zeros(0, 3),)),
    "a single number": (lambda x: x * 2, lambda x: x + x, (torch.tensor(3.0),)),
    "unused strides": (lambda x: x[:1] + 1, lambda x: (x + 1).as_strided((1, 3), (99, 1)).clone(), (X,)),
    "buffer written or bound anew": (doing(lambda m, x: m.count.add_(1)), doing(rebind), (X,)),
    "names of arguments": (lambda x, y: x - y, lambda x, y: x + -y, {"y": X, "x": X}),
    "masks": (lambda x: ~(x & x), lambda x: ~x, (X > 0,)),
    "generators": (lambda x, g: torch.rand(2, generator=g), lambda x, g: torch.rand((2,), generator=g),
                   (X, torch.Generator())),
    "sizes, dtypes and text": (lambda x: (x.shape, x.dtype, "a", None, complex(0, float("nan"))),
                               lambda x: (x.size(), x.dtype, "a", None, complex(0, float("nan"))), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_the_same_is_the_same(name: str) -> None:
    found = check_equivalence(*EQUAL[name])
    assert found, str(found)
    # Nobody writes into a leaf that asks for gradients.
    assert found.raised == (IN_A_ROW[1:2] if name == "the same write" else ())


def test_statistics_of_a_batch_in_training_are_writes() -> None:
    def without(module: Stateful, x: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(x, None, None, module.norm.weight, module.norm.bias, True)

    found = check_equivalence(Stateful(lambda self, x: self.norm(x)), Stateful(without), (X,))
    names = {f"norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert {(difference.what, difference.where) for difference in found.differences} == {
        ("mutation", name) for name in names
    }


def test_parameters_that_are_only_read_may_differ() -> None:
    found = check_equivalence(Weighted(2.0, 3.0), Weighted(6.0), (X,), gradients="inputs")
    assert found, str(found)
    assert check_equivalence(Weighted(2.0, 3.0), Weighted(6.0), (X,)).differences[0].what == "gradient"


def test_a_parameter_whose_name_begins_as_that_of_an_input_is_a_parameter() -> None:
    class Scaled(nn.Module):
        def __init__(self, weight: float, factor: float) -> None:
            super().__init__()
            self.input_scale = nn.Parameter(torch.full((3,), weight))
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.input_scale * self.factor)

    found = check_equivalence(Scaled(2.0, 3.0), Scaled(6.0, 1.0), (X,), gradients="inputs")
    assert found, str(found)
    assert check_equivalence(Scaled(2.0, 3.0), Scaled(6.0, 1.0), (X,)).differences[0].where == "input_scale"


def test_a_result_may_share_memory_with_a_weight_of_another_name() -> None:
    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.folded = torch.ones(3)

        def forward(self, x: torch.Tensor) -> Any:
            return self.folded[1:]

    class Plain(Renamed):
        def __init__(self) -> None:
            super().__init__()
            self.constant = self.folded
            del self.folded

        def forward(self, x: torch.Tensor) -> Any:
            return self.constant[1:]

    assert check_equivalence(Plain(), Renamed(), (X,))
    for copying in (Weighted(), lambda x: torch.ones(2)):
        copying.forward = lambda x: torch.ones(2)
        found = check_equivalence(Plain(), copying, (X,))
        assert [difference.what for difference in found.differences] == ["aliasing"]


def test_draws_are_those_of_the_seed() -> None:
    # What a function encloses is put back, but a queue's own contents cannot be seen.
    noted: queue.SimpleQueue[tuple[float, float]] = queue.SimpleQueue()

    def draw(x: torch.Tensor) -> torch.Tensor:
        noted.put((random.random(), torch.rand(()).item()))
        return x + 1

    for seed, other in ((0, 1), (0, 2), (3, 2)):
        random.seed(other)
        torch.manual_seed(other)
        assert check_equivalence(draw, draw, (X,), seed=seed, adversarial=False)
    drawn = [noted.get() for _ in range(noted.qsize())]
    (same,) = set(drawn[: 2 * 2 * len(IN_A_ROW)])
    (others,) = set(drawn[2 * 2 * len(IN_A_ROW) :])
    assert same[0] != others[0]
    assert same[1] != others[1]


def test_a_function_that_calls_the_module_is_seen_to_write_its_state() -> None:
    module = doing(rebind)
    assert check_equivalence(module, module.forward, (X,))
    assert check_equivalence(module, lambda x: module(x), (X,))
    assert check_equivalence(lambda x: module(x), module, (X,))
    assert module.count == 0
    found = check_equivalence(module, lambda x: x * module.weight, (X,))
    assert [difference.where for difference in found.differences] == ["count"]


def test_a_compiled_module_has_the_names_of_its_original() -> None:
    module = doing(rebind)
    compiled = torch.compile(module, backend="eager")
    assert check_equivalence(module, compiled, (X,))
    assert not check_equivalence(doing(), compiled, (X,))
    assert module.count == 0


def test_the_kind_of_gradients_that_must_stay_can_be_chosen() -> None:
    _, _, original, transformed, x = CASES["gradient of a parameter"]
    assert check_equivalence(original, transformed, (x,), gradients="inputs", adversarial=False)
    assert not check_equivalence(original, transformed, (x,), gradients="all", adversarial=False)
    assert check_equivalence(*CASES["gradient"][2:4], (GRAD,), gradients="none")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_are_compared_to_the_precision_of_their_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    wide = Tolerance(relative=1.0)
    assert check_equivalence(lambda x: x * 3 + x * x, lambda x: x * (x + 3), (x,), tolerance=wide, adversarial=False)
    wrong = check_equivalence(lambda x: x * 3 + x * x, lambda x: x * 3 + x * x.detach(), (x,), tolerance=wide)
    assert [difference.what for difference in wrong.differences] == ["gradient"]
    strict = check_equivalence(
        lambda x: x * 3 + x * x, lambda x: x * (x + 3), (x,), tolerance=wide, gradient_tolerance=EXACT
    )
    assert [difference.what for difference in strict.differences] == ["gradient"]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_are_compared_whatever_the_callers_mode(context: Any) -> None:
    with context():
        found = check_equivalence(*CASES["gradient of a parameter"][2:4], (X,), adversarial=False)
    assert [difference.what for difference in found.differences] == ["gradient"]


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_call_that_leaves_the_mode_of_gradients_finds_the_callers(context: Any) -> None:
    seen: list[tuple[bool, bool]] = []

    def ask(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return x * 2

    with context():
        observe(ask, State(), [Case("as it is", (X,), {}, gradients=wanted) for wanted in (None, True, False)])
    assert seen == [(context is torch.enable_grad, False), (True, False), (False, False)]


def test_special_values_are_tried_and_the_largest_ones_where_every_bit_counts() -> None:
    def saturating(x: torch.Tensor) -> torch.Tensor:
        return x * 2 / 2

    found = check_equivalence(lambda x: x * 1, saturating, (X,))
    assert found.differences[0].case == "special values"
    within = check_equivalence(lambda x: x * 1, saturating, (X,), tolerance=Tolerance(relative=1e-6))
    assert within
    # Rounding is allowed, so nothing is drawn to find it.
    assert within.cases == (*IN_A_ROW, *MADE)
    hiding = check_equivalence(lambda x: x * 1, lambda x: x.nan_to_num(0.0), (X,), tolerance=Tolerance(relative=1e-6))
    assert hiding.differences[0].case == "special values"
    infinite = X.clone().fill_(float("inf"))
    assert not check_equivalence(lambda x: x, lambda x: x.clamp(max=1e30), (infinite,), tolerance=Tolerance(1.0))


@pytest.mark.parametrize(
    "losing", [lambda x: x.nan_to_num(1.0, None, None), lambda x: x.clamp(max=1e30), lambda x: x.clamp(min=-1e30)]
)
def test_infinities_and_nan_count_under_every_tolerance(losing: Any) -> None:
    found = check_equivalence(lambda x: x * 1, losing, (X,), tolerance=Tolerance(1e3, 1e3), gradients="none")
    assert [one.case for one in found.differences] == ["special values"]


def test_overlapping_inputs_stay_overlapping() -> None:
    def original(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    x = torch.arange(6.0)
    assert check_equivalence(original, original, (x, x[:3]))
    found = check_equivalence(original, lambda x, y: (x.add(1), y * 2)[1], (x, x[:3]))
    assert {"value", "mutation"} == {difference.what for difference in found.differences}


def test_an_input_that_is_given_twice_stays_one() -> None:
    def tell(x: torch.Tensor, y: torch.Tensor) -> bool:
        return x is y

    for x in (X, GRAD * 1):
        assert check_equivalence(tell, lambda x, y: True, (x, x))
        assert check_equivalence(tell, lambda x, y: False, (x, x[:]))


def test_a_list_that_is_given_may_grow() -> None:
    def grow(values: list[Any]) -> torch.Tensor:
        values.append(values[0] + 1)
        return values[0] * 2

    values = [X]
    assert check_equivalence(grow, grow, (values,))
    assert len(values) == 1
    found = check_equivalence(grow, lambda values: values[0] * 2, (values,))
    assert [difference.where for difference in found.differences] == ["the inputs after the call"]


def test_a_case_on_which_both_raise_is_no_difference_and_is_told() -> None:
    def finite(x: torch.Tensor) -> torch.Tensor:
        if not x.isfinite().all():
            raise ValueError("infinite")
        return x * 2

    found = check_equivalence(finite, finite, (X,))
    assert found
    assert found.raised == MADE[2:]
    told = f"(on {', '.join(MADE[2:])} both raise); largest error 0"
    assert str(found) == f"the same on 15 sets of inputs {told}"


def test_if_both_always_raise_nothing_was_compared() -> None:
    with pytest.raises(ValueError, match=r"raises on all of these inputs.*exception: ValueError: no"):
        check_equivalence(raising, raising, (X,))


@pytest.mark.parametrize(
    ("function", "inputs", "words"),
    [
        (torch.sin, (X.to_sparse(),), "an input is a sparse or other tensor"),
        (lambda x: x.to_sparse(), (X,), "output is a sparse or other tensor"),
        (torch.sin, (X.to("meta"),), "an input is a tensor without values"),
        (lambda x: iter([x]), (X,), "type list_iterator"),
        (lambda x: x.detach().numpy(), (X,), "type ndarray"),
        (lambda x, g: x, (X, (i for i in range(3))), "the model or its inputs cannot be copied"),
        (torch.sin, X, "example_inputs is a tensor"),
    ],
)
def test_what_cannot_be_compared_is_refused(function: Any, inputs: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        check_equivalence(function, function, inputs)


def test_more_inputs_are_tried_as_they_are() -> None:
    found = check_equivalence(
        lambda x: x * 2, lambda x: x * 2 if len(x) < 5 else x * 3, (X,), more_inputs=[(torch.ones(5),)]
    )
    assert found.differences[0].case == "more inputs 0"


def test_another_way_without_gradients_is_seen() -> None:
    def two_ways(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.is_grad_enabled() else x * 3

    found = check_equivalence(lambda x: x * 2, two_ways, (X,))
    assert [(difference.what, difference.case) for difference in found.differences] == [("value", IN_A_ROW[2])]
    assert check_equivalence(lambda x: x * 3, two_ways, (X,), gradients="none")


class Doubled(torch.autograd.Function):
    """The identity, with twice the gradient."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient


def hooked(x: torch.Tensor) -> torch.Tensor:
    """The identity, whose tensor hook doubles the gradient."""
    result = x * 1
    if result.requires_grad:
        result.register_hook(lambda gradient: 2 * gradient)
    return result


@pytest.mark.parametrize("original", [Doubled.apply, hooked, lambda x: x * 1 + (x - x.detach())])
def test_a_gradient_that_only_inputs_see_counts_where_the_example_asks_for_none(original: Any) -> None:
    found = check_equivalence(original, lambda x: x * 1, (X,), adversarial=False)
    assert {(one.what, one.case) for one in found.differences} == {("gradient", IN_A_ROW[1])}, str(found)
    assert check_equivalence(original, original, (X,))


class Counting(nn.Module):
    """Gives `x` for some calls, then `2 * x`; counts them somewhere."""

    def __init__(self, change: int, count: Callable[[Any], int]) -> None:
        super().__init__()
        self.change, self.count = change, count
        self.calls, self.seen, self.marks = 0, [], {0}
        self.queue, self.held = deque([0], maxlen=99), SimpleNamespace(calls=0)
        self.generator, self.own = torch.Generator(), random.Random(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1 + (self.count(self) > self.change))


def added(values: Any, add: Any) -> int:
    add(len(values))
    return len(values)


def raised(owner: Any) -> int:
    owner.calls += 1
    return int(owner.calls)


COUNTS: dict[str, Callable[[Any], int]] = {
    "attribute": raised,
    "list": lambda m: added(m.seen, m.seen.append),
    "set": lambda m: added(m.marks, m.marks.add),
    "deque": lambda m: added(m.queue, m.queue.append),
    "object": lambda m: raised(m.held),
}


@pytest.mark.parametrize("change", [1, 2, 50])
@pytest.mark.parametrize("name", COUNTS)
def test_a_result_that_does_not_count_along_is_seen_however_late_it_shows(name: str, change: int) -> None:
    counting = Counting(change + (name in ("set", "deque")), COUNTS[name])
    found = check_equivalence(counting, lambda x: counting.change and x * 1, (X,), adversarial=False)
    assert not found
    forgetful = nn.Module()
    forgetful.forward = lambda x: x * 1
    found = check_equivalence(counting, forgetful, (X,), adversarial=False)
    assert {one.what for one in found.differences} <= {"value", "mutation", "gradient"}
    assert found.differences[0].case in IN_A_ROW[1:]
    assert check_equivalence(counting, copy.deepcopy(counting), (X,))


def test_what_only_the_first_call_fills_may_be_missing() -> None:
    class Filling(nn.Module):
        cache: Any = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.cache is None:
                self.cache = torch.arange(3.0)
            return x + self.cache

    empty = nn.Module()
    empty.forward = lambda x: x + torch.arange(3.0)
    assert check_equivalence(Filling(), empty, (X,))


def test_generators_that_a_module_holds_are_compared() -> None:
    draws = {
        "generator": lambda m: int(torch.randint(9, (), generator=m.generator)) * 0,
        "own": lambda m: m.own.randrange(9) * 0,
    }
    for name, draw in draws.items():
        found = check_equivalence(Counting(9, draw), Counting(9, lambda m: 0), (X,), adversarial=False)
        assert [(one.what, one.where) for one in found.differences] == [("mutation", name)]


def test_the_result_reads_as_a_sentence_and_as_json() -> None:
    same = check_equivalence(torch.sin, torch.sin, (X,))
    assert str(same) == "the same on 15 sets of inputs; largest error 0"
    differs = check_equivalence(torch.sin, torch.cos, (X,))
    assert str(differs).startswith("value of output: 6 of 6 values differ, first at [0, 0]: -0.4161")
    assert str(differs).endswith("(inputs: as given)")
    document = json.loads(json.dumps(differs.as_json(), allow_nan=False))
    assert (document["equal"], document["differences"][0]["what"]) == (False, "value")
    assert 1.0 < document["largest_error"] < 1.5
    infinite = check_equivalence(lambda x: x, lambda x: x / 0, (X,))
    assert infinite.as_json()["largest_error"] is None


def test_a_rewrite_that_is_wrong_below_zero_is_found_and_what_raises_there_is_no_case() -> None:
    def divided(x: torch.Tensor, how: str) -> torch.Tensor:
        return torch.div(x, 2, rounding_mode=how)

    for example in ([2, 4, 6], [3, 5, 1]):
        found = check_equivalence(
            lambda x: divided(x, "floor"), lambda x: divided(x, "trunc"), (torch.tensor(example),)
        )
        assert [one.what for one in found.differences] == ["value"]
        assert found.differences[0].case.startswith("negative integers")
    table = torch.ones(9, 2)
    same = check_equivalence(
        lambda x: torch.nn.functional.embedding(x, table), lambda x: table[x], (torch.tensor([1, 2]),)
    )
    assert same
    assert not any("negative" in name for name in same.cases)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3), (5,)])
def test_what_rounds_otherwise_is_found_in_small_inputs_whatever_they_hold(shape: tuple[int, ...]) -> None:
    for seed in range(10):
        torch.manual_seed(seed)
        assert not check_equivalence(lambda x: (x + 1.0) + 1.0, lambda x: x + 2.0, (torch.randn(shape),))


def test_what_a_call_keeps_of_its_inputs_is_missed() -> None:
    class Keeps(nn.Module):
        """Adds what the first call was given."""

        def __init__(self) -> None:
            super().__init__()
            self.cache: dict[str, torch.Tensor] = {}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.cache.setdefault("first", x.detach() * 2)

    found = check_equivalence(Keeps(), lambda x: x + x.detach() * 2, (X,))
    assert [(one.what, one.case) for one in found.differences] == [("value", "fresh values")]
    assert check_equivalence(Keeps(), Keeps(), (X,))


class Keys(nn.Module):
    """Attention whose keys have a bias, with gradients of very different size. The bias has none in real numbers."""

    def __init__(self, apart: bool = False, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bias = nn.Parameter(torch.randn(16))
        self.gain = nn.Parameter(torch.tensor(3e-4))
        self.apart, self.wrong = apart, wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = x @ x.mT + (x @ self.bias)[:, None] if self.apart else x @ (x + self.bias).mT
        gain = self.gain * self.wrong + (self.gain * (1 - self.wrong)).detach()
        return 3000 * torch.softmax(keys, -1) @ x + gain * x.abs()


def test_a_gradient_that_is_nothing_but_rounding_may_differ() -> None:
    x = torch.randn(64, 16, requires_grad=True)
    equal = check_equivalence(Keys(), Keys(apart=True), (x,), tolerance=Tolerance(1e-4), adversarial=False)
    assert equal, str(equal)
    strict = check_equivalence(
        Keys(),
        Keys(apart=True),
        (x,),
        tolerance=Tolerance(1e-4),
        gradient_tolerance=Tolerance(1e-4, 1e-6),
        adversarial=False,
    )
    assert "gradient of bias" in str(strict)


def test_a_small_gradient_that_is_wrong_is_found_all_the_same() -> None:
    x = torch.randn(64, 16, requires_grad=True)
    found = check_equivalence(Keys(), Keys(wrong=1.01), (x,), tolerance=Tolerance(1e-4), adversarial=False)
    assert "gradient of gain" in str(found)


class _Draws(nn.Module):
    """Holds a generator of Python's, of which the state is a page of numbers."""

    def __init__(self, draws: int) -> None:
        super().__init__()
        self.source, self.draws = random.Random(0), draws

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.draws):
            self.source.random()
        return x + 1


def test_a_generator_that_is_held_is_compared_and_its_state_not_printed_whole() -> None:
    found = check_equivalence(_Draws(1), _Draws(2), (torch.ones(2),))
    assert not found
    assert "mutation of source" in str(found)
    assert max(map(len, str(found).splitlines())) < 500
    assert check_equivalence(_Draws(2), _Draws(2), (torch.ones(2),))
