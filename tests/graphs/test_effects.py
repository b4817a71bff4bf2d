"""Effects of single nodes, each a case that an analysis by names alone gets wrong."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import fx

from fxopt_core.graphs.effects import OPAQUE, PURE, Effects, effects_of
from fxopt_core.graphs.torch_functions import behaviour_of_function

aten = torch.ops.aten


class Names:
    """Placeholders by name: `Names().x` makes one."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.made: dict[str, fx.Node] = {}

    def __getattr__(self, name: str) -> fx.Node:
        if name not in self.made:
            self.made[name] = self.graph.placeholder(name)
            self.made[name].meta["val"] = torch.ones(2, 2)  # a tensor, and no container of tensors
        return self.made[name]


def said(build: Callable[[Names], fx.Node]) -> dict[str, Any]:
    """The effects of the node that `build` makes, without those that are not there."""
    effects = effects_of(build(Names()))
    found: dict[str, Any] = {
        "writes": {str(place) for place in effects.writes},
        "aliases": {str(place) for place in effects.aliases},
    }
    found |= {name: getattr(effects, name) for name in ("view", "random", "context", "checks", "opaque")}
    return {name: value for name, value in found.items() if value}


def call(target: Any, *args: Any, **kwargs: Any) -> Callable[[Names], fx.Node]:
    """A call in which `"$x"` stands for placeholder x."""

    def build(names: Names) -> fx.Node:
        def place(value: Any) -> Any:
            if isinstance(value, str) and value.startswith("$"):
                return getattr(names, value[1:])
            if isinstance(value, (list, tuple)):
                return type(value)(map(place, value))
            return value

        given = place(args), {name: place(value) for name, value in kwargs.items()}
        if isinstance(target, str):
            return names.graph.call_method(target, *given)
        return names.graph.call_function(target, *given)

    return build


PARTIAL = functools.update_wrapper(functools.partial(torch.relu), torch.relu)

BOTH_X: dict[str, Any] = {"writes": {"x"}, "aliases": {"x"}}
STATISTICS: dict[str, Any] = {"writes": {"mean", "var"}}
NORM = ("$x", "$mean", "$var")

CASES: dict[str, tuple[Callable[[Names], fx.Node], dict[str, Any]]] = {
    # Python
    "x += y": (call(operator.iadd, "$x", "$y"), BOTH_X),
    "x[0] = y": (call(operator.setitem, "$x", 0, "$y"), {"writes": {"x"}}),
    "x[0]": (call(operator.getitem, "$x", 0), {"aliases": {"x"}}),
    "x + y": (call(operator.add, "$x", "$y"), {}),
    "+x": (call(operator.pos, "$x"), {"aliases": {"x"}}),
    "x.__iadd__(y)": (call("__iadd__", "$x", "$y"), BOTH_X),
    "del x[0]": (call(operator.delitem, "$x", 0), {"opaque": True}),
    "(x,) + (y,)": (call(operator.add, ("$x",), ("$y",)), {"aliases": {"x", "y"}}),
    "[x] * 2": (call(operator.mul, ["$x"], 2), {"aliases": {"x"}}),
    "tuple(x)": (call(tuple, "$x"), {"aliases": {"x"}}),
    "x.sort()": (call("sort", "$x"), {}),
    "print(x)": (call(print, "$x"), {"opaque": True}),
    "iter(x)": (call(iter, "$x"), {"opaque": True}),
    "lambda": (call(lambda x: x, "$x"), {"opaque": True}),
    "partial of what is known": (call(PARTIAL, "$x"), {"opaque": True}),
    "unbound method": (call(torch.Tensor.add_, "$x", 1), {"opaque": True}),
    # Attributes
    "x.T": (call(getattr, "$x", "T"), {"aliases": {"x"}}),
    "x.real": (call(getattr, "$x", "real"), {"aliases": {"x"}}),
    "x.shape": (call(getattr, "$x", "shape"), {}),
    "x.data": (call(getattr, "$x", "data"), {"opaque": True}),
    "x.grad": (call(getattr, "$x", "grad"), {"opaque": True}),
    "x.unheard_of": (call(getattr, "$x", "unheard_of"), {"opaque": True}),
    "x.data = y": (call(setattr, "$x", "data", "$y"), {"opaque": True}),
    # Methods
    "append": (call("append", "$x", "$y"), {"opaque": True}),
    "update": (call("update", "$x", "$y"), {"opaque": True}),
    "zero_": (call("zero_", "$x"), BOTH_X),
    "copy_": (call("copy_", "$x", "$y"), BOTH_X),
    "to": (call("to", "$x", torch.float64), {"aliases": {"x"}}),
    "set_": (call("set_", "$x", "$y"), {"opaque": True}),
    "resize": (call("resize", "$x", 2), {"opaque": True}),
    "numpy": (call("numpy", "$x"), {"opaque": True}),
    "item": (call("item", "$x"), {}),
    "bernoulli_": (call("bernoulli_", "$x"), BOTH_X | {"random": True}),
    "dunder that computes": (call("__add__", "$x", "$y"), {}),
    # `out`
    "out by name": (call(torch.add, "$x", "$y", out="$z"), {"writes": {"z"}, "aliases": {"z"}}),
    "out of None": (call(torch.add, "$x", "$y", out=None), {}),
    "several outs": (call(torch.max, "$x", 0, out=("$y", "$z")), {"writes": {"y", "z"}, "aliases": {"y", "z"}}),
    "out by position": (
        call(functional.normalize, "$x", 2.0, 1, 1e-12, "$z"),
        {"writes": {"z"}, "aliases": {"x", "z"}},
    ),
    "out of norm by position": (
        call(torch.norm, "$x", 2, 0, False, "$z"),
        {"writes": {"z"}, "aliases": {"x", "z"}},
    ),
    "overload with out": (call(aten.add.out, "$x", "$y", out="$z"), {"writes": {"z"}, "aliases": {"z"}}),
    "outs with names of their own": (
        call(aten.sort, "$x", values="$y", indices="$z"),
        {"writes": {"y", "z"}, "aliases": {"y", "z"}},
    ),
    # In place by name of the argument
    "input by keyword": (call(torch.relu_, input="$x"), BOTH_X),
    "inplace": (call(functional.relu, "$x", inplace=True), BOTH_X),
    "inplace by position": (call(functional.relu, "$x", True), BOTH_X),
    "inplace before its input": (call(functional.relu, inplace=True, input="$x"), BOTH_X),
    "not in place": (call(functional.relu, "$x", inplace=False), {}),
    "in place or not": (call(functional.relu, "$x", inplace="$flag"), BOTH_X),
    # Written and read elsewhere
    "embedding": (call(functional.embedding, "$index", "$weight"), {}),
    "embedding that renormalises": (
        call(functional.embedding, "$index", "$weight", max_norm=1.0),
        {"writes": {"weight"}},
    ),
    "embedding that renormalises, by position": (
        call(functional.embedding, "$index", "$weight", None, 1.0),
        {"writes": {"weight"}},
    ),
    "noise that is not the first argument": (
        call(torch._C._nn.rrelu_with_noise, "$x", "$noise", 0.1, 0.3, True),
        {"writes": {"noise"}, "aliases": {"noise"}, "random": True},
    ),
    "unscaling": (
        call(aten._amp_foreach_non_finite_check_and_unscale_, ["$x", "$y"], "$found", "$scale"),
        {"writes": {"x", "y", "found"}, "aliases": {"x", "y", "found"}},
    ),
    "lists": (call(aten._foreach_add_.List, ["$x", "$y"], ["$a", "$b"]), {"writes": {"x", "y"}, "aliases": {"x", "y"}}),
    "index_put_": (call(aten.index_put_.default, "$x", ["$i"], "$y"), BOTH_X),
    # Batch normalisation
    "batch_norm": (call(functional.batch_norm, *NORM), {}),
    "batch_norm in training": (call(functional.batch_norm, *NORM, training=True), STATISTICS),
    "batch_norm in training, by position": (call(functional.batch_norm, *NORM, None, None, True), STATISTICS),
    "batch_norm in training or not": (call(functional.batch_norm, *NORM, training="$flag"), STATISTICS),
    "batch_norm with 0 for False": (call(functional.batch_norm, *NORM, training=0), STATISTICS),
    "instance_norm": (call(functional.instance_norm, *NORM), STATISTICS),
    "instance_norm of its own": (call(functional.instance_norm, *NORM, use_input_stats=False), {}),
    "native_batch_norm": (
        call(aten.native_batch_norm.default, "$x", None, None, "$mean", "$var", True, 0.1, 1e-5),
        STATISTICS,
    ),
    "native_batch_norm in eval": (
        call(aten.native_batch_norm.default, "$x", None, None, "$mean", "$var", False, 0.1, 1e-5),
        {},
    ),
    "legit": (
        call(aten._native_batch_norm_legit.default, "$x", None, None, "$mean", "$var", True, 0.1, 1e-5),
        STATISTICS,
    ),
    "legit by name": (
        call(aten._native_batch_norm_legit, "$x", None, None, "$mean", "$var", True, 0.1, 1e-5),
        STATISTICS,
    ),
    "functional": (
        call(aten._native_batch_norm_legit_functional.default, "$x", None, None, "$mean", "$var", True, 0.1, 1e-5),
        {},
    ),
    # Draws
    "dropout": (call(functional.dropout, "$x"), {"aliases": {"x"}, "random": True}),
    "dropout in eval": (call(functional.dropout, "$x", training=False), {"aliases": {"x"}}),
    "attention": (call(functional.scaled_dot_product_attention, "$x", "$y", "$z"), {}),
    "attention with dropout": (
        call(functional.scaled_dot_product_attention, "$x", "$y", "$z", None, 0.1),
        {"random": True},
    ),
    "attention with some dropout": (
        call(functional.scaled_dot_product_attention, "$x", "$y", "$z", dropout_p="$p"),
        {"random": True},
    ),
    "rand": (call(torch.rand, 3), {"random": True}),
    "randn_like": (call(aten.randn_like.default, "$x"), {"random": True}),
    "fractional pooling": (
        call(functional.fractional_max_pool2d, "$x", 2, output_size=2),
        {"aliases": {"x"}, "random": True},
    ),
    "dropout that no tag tells of": (
        call(aten.quantized_gru.input_legacy, "$x", "$h", ["$w"], True, 2, 0.5, True, False, False),
        {"random": True},
    ),
    "gumbel_softmax": (call(functional.gumbel_softmax, "$x"), {"opaque": True}),
    "a seed": (call(torch.manual_seed, 0), {"opaque": True}),
    # Modes
    "gradients": (call(torch._C._set_grad_enabled, False), {"context": True}),
    "autocast": (call(torch.amp.autocast_mode._enter_autocast, "cpu", None, True, None), {"context": True}),
    "autocast ends": (call(torch.amp.autocast_mode._exit_autocast, "$x"), {"context": True}),
    "inference mode": (call(torch.autograd.grad_mode._enter_inference_mode, True), {"context": True}),
    "set_grad_enabled": (call(torch.set_grad_enabled, False), {"opaque": True}),
    "default dtype": (call(torch.set_default_dtype, torch.float64), {"opaque": True}),
    # Checks
    "check": (call(torch._check, "$x"), {"checks": True}),
    "assertion": (call(torch._assert, "$x", "message"), {"checks": True}),
    "asynchronous assertion": (call(aten._assert_async.msg, "$x", "message"), {"checks": True}),
    "functional assertion": (call(aten._functional_assert_async.msg, "$x", "message", "$token"), {"checks": True}),
    "range": (call(aten.sym_constrain_range_for_size.default, "$n", min=2), {"checks": True}),
    "metadata": (call(aten._assert_tensor_metadata.default, "$x", None, None, torch.float32), {"checks": True}),
    "prints": (call(aten._print.default, "text"), {"opaque": True}),
    "backward": (call(aten._backward.default, "$x", []), {"opaque": True}),
    # Operators whose schema says too little
    "set_ of ATen": (call(aten.set_.source_Tensor, "$x", "$y"), {"opaque": True}),
    "set_data": (call(aten.set_data.default, "$x", "$y"), {"opaque": True}),
    "file": (call(aten.from_file.default, "name", True, 3), {"opaque": True}),
    "unsafe_split": (call(aten.unsafe_split.Tensor, "$x", 1), {"aliases": {"x"}}),
    "lift": (call(aten.lift.default, "$x"), {"aliases": {"x"}}),
    "sparse": (
        call(aten._sparse_coo_tensor_with_dims_and_tensors.default, 1, 1, [2], "$i", "$v"),
        {"aliases": {"i", "v"}},
    ),
    "sparse rows": (call(aten.sparse_compressed_tensor.comp_plain_value, "$i", "$j", "$v"), {"aliases": set("ijv")}),
    "set without writing": (call(aten.set.source_Tensor, "$x", "$y"), {"aliases": {"x", "y"}}),
    "convolution that reshapes its input": (
        call(aten.slow_conv_transpose2d.default, "$x", "$w", [2, 2]),
        {"opaque": True},
    ),
    "reshape": (call(aten.reshape.default, "$x", [4]), {"aliases": {"x"}}),
    "resize_": (call(aten.resize_.default, "$x", [4]), BOTH_X),
    "TorchScript's append": (call(aten.append.t, "$x", "$y"), {"opaque": True}),
    "device_put": (call(torch.ops.prims.device_put.default, "$x", torch.device("cpu")), {"aliases": {"x"}}),
    "copy_to": (call(torch.ops.prims.copy_to.default, "$x", "$y"), BOTH_X),
    # Views
    "view": (call(aten.view.default, "$x", [4]), {"aliases": {"x"}, "view": True}),
    "transpose in place": (call(aten.t_.default, "$x"), BOTH_X),
    "copy of a view": (call(aten.view_copy.default, "$x", [4]), {}),
    "clone": (call(aten.clone.default, "$x"), {}),
    # Numbers
    "size": (call(aten.sym_size.int, "$x", 0), {}),
    "value": (call(aten._local_scalar_dense.default, "$x"), {}),
    "sum of sizes": (call(torch.sym_sum, ["$n", "$m"]), {}),
    "symbolic minimum": (call(torch.sym_min, "$n", 2), {}),
    # Other programs inside
    "cond": (call(torch.cond, "$p", "$f", "$g", ["$x"]), {"opaque": True}),
    "cond below": (call(torch.ops.higher_order.cond, "$p", "$f", "$g", ["$x"]), {"opaque": True}),
    "auto_functionalized": (call(torch.ops.higher_order.auto_functionalized, "$x"), {"opaque": True}),
    "checkpointed": (call(torch.utils.checkpoint.checkpoint, "$f", "$x"), {"opaque": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_effects(name: str) -> None:
    build, expected = CASES[name]
    assert said(build) == expected


class TargetWithoutHash:
    __name__ = "target"
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        return x


def test_a_target_that_cannot_be_hashed_is_opaque() -> None:
    """A graph of PyTorch 2.13 takes none; what a node may hold is not for this to decide."""
    assert behaviour_of_function(TargetWithoutHash()).opaque


def test_a_custom_operator_is_opaque_whatever_it_says_of_itself() -> None:
    with torch.library._scoped_library("fxopt_test_effects", "DEF") as library:
        library.define("pure(Tensor x) -> Tensor")
        library.define("write(Tensor(a!) x) -> ()")
        for operation in (torch.ops.fxopt_test_effects.pure, torch.ops.fxopt_test_effects.write):
            assert said(call(operation.default, "$x")) == {"opaque": True}
            assert said(call(operation, "$x")) == {"opaque": True}


def test_inductor_s_seeds_are_draws() -> None:
    import torch._inductor.inductor_prims  # registers them

    assert said(call(torch.ops.prims.inductor_seed.default, torch.device("cpu"))) == {"random": True}


def test_the_common_case_is_shared() -> None:
    assert effects_of(call(aten.relu.default, "$x")(Names())) is PURE
    assert effects_of(call(torch.relu, "$x")(Names())) is PURE
    assert effects_of(call("relu", "$x")(Names())) is PURE


@pytest.mark.parametrize(
    ("effects", "observable"),
    [
        (PURE, False),
        (OPAQUE, True),
        (Effects(aliases=("w",), view=True), False),
        (Effects(writes=("w",)), True),
        (Effects(random=True), True),
        (Effects(context=True), True),
        (Effects(checks=True), True),
    ],
)
def test_observable(effects: Effects, observable: bool) -> None:
    assert effects.observable is observable


def placeholders_of_anything(count: int) -> list[fx.Node]:
    graph = fx.Graph()
    return [graph.placeholder(f"anything_{number}") for number in range(count)]


class TestContainers:
    """Of what the inputs are nothing is known: no example value."""

    def test_a_sum_of_inputs_may_be_a_list_of_them(self) -> None:
        x, y = placeholders_of_anything(2)
        assert effects_of(x.graph.call_function(operator.add, (x, y))).aliases == (x, y)

    def test_a_sum_with_a_tensor_is_none(self) -> None:
        x, y = placeholders_of_anything(2)
        tensor = x.graph.call_function(torch.relu, (y,))
        assert effects_of(x.graph.call_function(operator.add, (x, tensor))).aliases == ()
        assert effects_of(x.graph.call_function(operator.add, (tensor, x))).aliases == ()

    def test_pieces_of_a_split_are_tensors_and_their_lists_are_not(self) -> None:
        (x,) = placeholders_of_anything(1)
        halves = x.graph.call_function(torch.split, (x, 2))
        more = x.graph.call_method("chunk", (x, 2))
        assert effects_of(x.graph.call_function(operator.add, (halves, more))).aliases == (halves, more)

    def test_what_is_stored_in_a_container_is_shared(self) -> None:
        x, y = placeholders_of_anything(2)
        effects = effects_of(x.graph.call_function(operator.setitem, (x, "key", y)))
        assert (set(effects.writes), set(effects.aliases)) == ({x}, {x, y})

    def test_a_list_that_grows_shares_what_it_gets(self) -> None:
        x, y = placeholders_of_anything(2)
        effects = effects_of(x.graph.call_function(operator.iadd, (x, [y])))
        assert (set(effects.writes), set(effects.aliases)) == ({x}, {x, y})

    def test_a_long_chain_takes_no_time(self) -> None:
        (value,) = placeholders_of_anything(1)
        for _ in range(200):
            value = value.graph.call_function(operator.mul, (value, value))
        assert effects_of(value).aliases
