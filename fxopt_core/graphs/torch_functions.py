"""Behaviours of what torch-level graphs call: functions of `torch` and of Python, and methods of tensors."""

from __future__ import annotations

import builtins
import inspect
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.nn.functional as functional
from torch._ops import OpOverload

from fxopt_core.graphs.behaviours import (
    CHECK,
    CONTEXT,
    FRESH,
    MAY_ALIAS,
    MAY_ALIAS_OR_COLLECT,
    OPAQUE,
    Behaviour,
    behaviour_of_operator,
    behaviour_of_packet,
)
from fxopt_core.graphs.fused_operators import linear_activation
from fxopt_core.graphs.operations import operator_behind, packet_named

_LIKE_ANOTHER_OPERATOR = {
    "cross_entropy": "cross_entropy_loss",
    "adaptive_max_pool1d_with_indices": "adaptive_max_pool1d",
    "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d",
    "adaptive_max_pool3d_with_indices": "adaptive_max_pool3d",
}

_PURE_COMPOSITES = (
    "affine_grid fold gaussian_nll_loss grid_sample interpolate local_response_norm lp_pool1d lp_pool2d lp_pool3d "
    "max_unpool1d multilabel_soft_margin_loss normalize softmin softsign tanhshrink upsample "
    "triplet_margin_with_distance_loss"
)
"""Python functions of `torch.nn.functional` over deterministic operators without a like-named one in ATen."""

_WANT_A_RANGE = frozenset({"gaussian_nll_loss", "max_unpool1d"})
"""Those of them that raise on variances below zero, and on indices out of range."""

_DRAWS = (
    "dropout1d dropout2d dropout3d fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices "
    "fractional_max_pool3d_with_indices"
)
"""Python functions of `torch.nn.functional` that draw what the operator of the same name is given."""

_TORCH_IN_PYTHON = "block_diag cartesian_prod cdist chain_matmul einsum norm stft tensordot"
_TORCH_IN_PYTHON_RETURNS_SEVERAL = (
    "atleast_1d atleast_2d atleast_3d broadcast_tensors meshgrid split unique unique_consecutive unravel_index"
)

_SYMBOLIC = "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum is_tensor broadcast_shapes tensor"

_PURE_BUILTINS = "abs bool complex divmod float int isinstance len max min pow range round slice sum tuple list dict"

_ATTRIBUTES_WITHOUT_STORAGE = frozenset(
    "shape dtype device ndim is_cuda is_cpu is_sparse is_quantized is_leaf requires_grad layout names itemsize "
    "nbytes".split()
)
_VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})

_CONTEXT_FUNCTIONS = (
    (torch._C, "_set_grad_enabled"),
    (torch.amp.autocast_mode, "_enter_autocast"),
    (torch.amp.autocast_mode, "_exit_autocast"),
    (torch.autograd.grad_mode, "_enter_inference_mode"),
    (torch.autograd.grad_mode, "_exit_inference_mode"),
)


@cache
def _table() -> dict[Any, Behaviour]:
    table: dict[Any, Behaviour] = {}
    for name, function in vars(functional).items():
        packet = packet_named(_LIKE_ANOTHER_OPERATOR.get(name, name))
        if inspect.isfunction(function) and packet is not None:
            table[function] = _with_signature(behaviour_of_packet(packet), function)
    for name in _PURE_COMPOSITES.split():
        behaviour = replace(MAY_ALIAS, raises=name in _WANT_A_RANGE)
        table[getattr(functional, name)] = _with_signature(behaviour, getattr(functional, name))
    for name in _DRAWS.split():
        function = getattr(functional, name)
        table[function] = _with_signature(replace(MAY_ALIAS, random=True), function)
    for name in _TORCH_IN_PYTHON.split():
        table[getattr(torch, name)] = _with_signature(MAY_ALIAS, getattr(torch, name))
    table |= {getattr(torch, name): MAY_ALIAS_OR_COLLECT for name in _TORCH_IN_PYTHON_RETURNS_SEVERAL.split()}
    table |= {getattr(torch, name): FRESH for name in _SYMBOLIC.split()} | {torch.as_tensor: MAY_ALIAS}
    table |= {getattr(builtins, name): MAY_ALIAS_OR_COLLECT for name in _PURE_BUILTINS.split()}
    table |= {function: FRESH for function in vars(math).values() if isinstance(function, BuiltinFunctionType)}
    table |= {function: _python_operator(name) for name, function in vars(operator).items() if callable(function)}
    table |= {getattr(where, name): CONTEXT for where, name in _CONTEXT_FUNCTIONS if hasattr(where, name)}
    table |= {torch._assert: CHECK, torch._check: CHECK}
    table[linear_activation] = _with_signature(FRESH, linear_activation)
    return table


def _with_signature(behaviour: Behaviour, function: Callable[..., Any]) -> Behaviour:
    """The behaviour with the argument names of a function in Python."""
    parameters = inspect.signature(function).parameters.values()
    return replace(
        behaviour,
        names=tuple(parameter.name for parameter in parameters),
        defaults={p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
    )


_IMPURE_OPERATORS = frozenset("call delitem attrgetter itemgetter methodcaller length_hint setitem".split())


_OPERANDS = ("left", "right")

ITEM = Behaviour(names=_OPERANDS, aliases=frozenset({"left"}))
"""`x[i]` of a tensor or of a container. An index that is a tensor may be out of range: see `effects`."""


def _python_operator(name: str) -> Behaviour:
    plain = name.strip("_")
    left = frozenset({"left"})
    if plain.startswith("i") and f"__{plain[1:]}__" in vars(operator):  # such as `iadd`
        return Behaviour(names=_OPERANDS, writes=left, aliases=left, joins=(("left",),))
    if plain == "setitem":
        return Behaviour(names=("left", "index", "right"), writes=left, joins=(("left",),))
    if plain in {"getitem", "pos"}:
        return ITEM
    if plain in {"add", "concat", "or"}:
        # The right one first: what is added to a sum is a tensor more often than not, and then so is the sum.
        return Behaviour(names=_OPERANDS, joins=(("right", "left"),))
    if plain == "mul":
        return Behaviour(names=_OPERANDS, joins=(("right",), ("left",)))
    if plain in {"floordiv", "mod"}:
        return Behaviour(names=_OPERANDS, divides=True)
    return OPAQUE if plain in _IMPURE_OPERATORS else FRESH


def behaviour_of_function(target: Any) -> Behaviour:
    """What the target of a `call_function` node does; `OPAQUE` when nothing is known of it."""
    if isinstance(target, OpOverload):
        return behaviour_of_operator(target)
    table = _table()
    try:
        known = table.get(target)
    except TypeError:  # not hashable, hence in no table
        return OPAQUE
    if known is None and (packet := operator_behind(target)) is not None:
        # A graph asks for the same few functions again and again.
        known = table[target] = behaviour_of_packet(packet)
    return OPAQUE if known is None else known


def behaviour_of_attribute(name: Any) -> Behaviour:
    """What `getattr(tensor, name)` does."""
    if name in _ATTRIBUTES_WITHOUT_STORAGE:
        return FRESH
    return MAY_ALIAS if name in _VIEW_ATTRIBUTES else OPAQUE


_OPAQUE_METHODS = (
    "backward requires_grad_ retain_grad register_hook detach_ set_ resize_ resize_as_ data_ptr apply_ map_ map2_ "
    "numpy share_memory_ record_stream storage untyped_storage resize resize_as"
)
_METHODS_WITHOUT_STORAGE = (
    "size dim numel nelement ndimension stride storage_offset element_size is_contiguous is_floating_point is_complex "
    "is_signed item tolist get_device is_pinned is_same_size equal allclose new_tensor"
)
_METHODS_IN_PYTHON = (
    "bfloat16 bool byte cdouble cfloat chalf char double float half int long short type to cpu cuda contiguous view_as "
    "expand_as reshape_as type_as"
)
_METHODS = {
    name: behaviour
    for names, behaviour in (
        (_OPAQUE_METHODS, OPAQUE),
        (_METHODS_WITHOUT_STORAGE, FRESH),
        (_METHODS_IN_PYTHON, MAY_ALIAS),
        ("unique", MAY_ALIAS_OR_COLLECT),
    )
    for name in names.split()
}
"""Methods of tensors that do something else than the operator of their name, or have none."""


@cache
def behaviour_of_method(name: str) -> Behaviour:
    """What a method of a tensor does, by the operator of the same name."""
    if name in _METHODS or not hasattr(torch.Tensor, name):
        return _METHODS.get(name, OPAQUE)
    if name.startswith("__") and name.endswith("__"):
        return _python_operator(name) if name.strip("_") in vars(operator) else OPAQUE
    packet = packet_named(name)
    return OPAQUE if packet is None else behaviour_of_packet(packet)
