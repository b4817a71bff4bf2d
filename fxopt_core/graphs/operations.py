"""One name for an operation, in whatever dialect of graphs it is written."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload, OpOverloadPacket

SYNONYMS = {
    "abs": "absolute",
    "bitwise_left_shift": "__lshift__",
    "bitwise_right_shift": "__rshift__",
    "div": "divide true_divide",
    "maximum": "max",
    "minimum": "min",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "sub": "subtract",
    "transpose": "swapaxes swapdims",
}
"""Other names of PyTorch for an operation of ATen. (Of `max` and `min` this is the form with two tensors.)"""

PYTHON_OPERATORS = {
    **{name: name for name in "abs add eq ge gt le lt mul ne neg pow sub".split()},
    "bitwise_and": "and_",
    "bitwise_left_shift": "lshift",
    "bitwise_not": "invert",
    "bitwise_or": "or_",
    "bitwise_right_shift": "rshift",
    "bitwise_xor": "xor",
    "div": "truediv",
    "floor_divide": "floordiv",
    "matmul": "matmul",
}
"""What the operation is called in the module `operator`."""

COMMUTATIVE = frozenset(
    "add mul maximum minimum fmax fmin eq ne bitwise_and bitwise_or bitwise_xor logical_and logical_or "
    "logical_xor".split()
)
"""Operations whose two operands may change places."""

_FUNCTIONS_ONLY = frozenset({"where"})
"""As methods of tensors these take their arguments in another order."""

_MODULES_IN_CPP = frozenset({"torch", "torch._C._nn", "torch._C._special", "torch._C._linalg", "torch._C._fft"})
"""Where functions in C++ say that they are from; their `__name__` is that of the operator."""

_DEFAULTS: dict[str, Any] = {"inplace": False, "alpha": 1, "rounding_mode": None}
"""Keyword arguments that mean nothing at these values."""


@cache
def packet_named(name: str) -> OpOverloadPacket | None:
    """The operator of ATen of a name; `None` if there is none."""
    packet = getattr(torch.ops.aten, name, None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def operator_behind(target: object) -> OpOverloadPacket | None:
    """The operator of ATen behind a function of PyTorch in C++ or a method of tensors, by its name; else `None`."""
    if isinstance(target, OpOverloadPacket):
        return target
    if isinstance(target, BuiltinFunctionType) and target.__module__ in _MODULES_IN_CPP:
        return packet_named(target.__name__)
    return packet_named(target) if isinstance(target, str) and not target.startswith("_") else None


class Operations:
    """The names of operations that a pass knows.

    Args:
        names: of operators of ATen.
        in_place: those that are known in their form that writes the first argument, too: `mul_`, `*=`.

    Attributes:
        functions: targets of `call_function` nodes, with the name of the operation.
        methods: targets of `call_method` nodes, likewise.
    """

    def __init__(self, names: Iterable[str], in_place: Iterable[str] = ()) -> None:
        self.functions: dict[Any, str] = {}
        self.methods: dict[str, str] = {}
        for name in names:
            for synonym in (name, *SYNONYMS.get(name, "").split()):
                self._add(name, synonym)
            if name in in_place:
                self._add(name, f"{name}_")
                if name in PYTHON_OPERATORS:
                    self.functions[getattr(operator, f"i{PYTHON_OPERATORS[name]}")] = name
            if name in PYTHON_OPERATORS:
                self.functions[getattr(operator, PYTHON_OPERATORS[name])] = name
                self.methods[f"__{PYTHON_OPERATORS[name].strip('_')}__"] = name
        if "abs" in self.methods:
            self.functions[builtins.abs] = "abs"

    def _add(self, name: str, synonym: str) -> None:
        packet = packet_named(synonym)
        if packet is not None:
            overloads = [getattr(packet, overload) for overload in packet.overloads()]
            self.functions |= {o: name for o in overloads if not any(a.is_out for a in o._schema.arguments)}
        for namespace in (torch, torch._C._nn, torch.special, torch.nn.functional):
            if hasattr(namespace, synonym):
                self.functions[getattr(namespace, synonym)] = name
        if hasattr(torch.Tensor, synonym) and name not in _FUNCTIONS_ONLY:
            self.methods[synonym] = name

    def name_of(self, node: fx.Node) -> str | None:
        """The operation that a node calls; `None` when it is none of these."""
        if node.op == "call_function":
            return self.functions.get(node.target)
        return self.methods.get(str(node.target)) if node.op == "call_method" else None


_COMMUTATIVE = Operations(COMMUTATIVE)


@cache
def is_commutative(target: Hashable) -> bool:
    """Whether the first two arguments may change places, as far as the target of a call decides that."""
    if isinstance(target, OpOverload):
        both = [str(argument.type) for argument in target._schema.arguments[:2]]
        return target in _COMMUTATIVE.functions and both == ["Tensor", "Tensor"]
    # Of these, which are `maximum` and `minimum` too, the second argument may be a dimension.
    if target in (torch.max, torch.min, "max", "min"):
        return False
    return target in _COMMUTATIVE.functions or target in _COMMUTATIVE.methods


def operands_of(node: fx.Node) -> tuple[Any, ...] | None:
    """The arguments of an operation; `None` when one is given by name and changes what it does."""
    for name, value in node.kwargs.items():
        if name not in _DEFAULTS or type(value) is not type(_DEFAULTS[name]) or value != _DEFAULTS[name]:
            return None
    return node.args


def function_like(node: fx.Node, name: str, operands: tuple[Any, ...]) -> Callable[..., Any]:
    """The function for an operation in the dialect of a node: an overload of ATen, or a function of torch."""
    if not isinstance(node.target, OpOverload):
        function: Callable[..., Any] = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        return function
    packet = getattr(torch.ops.aten, name)
    number = type(operands[-1]) in (int, float)
    arithmetic = name in ("add", "sub", "mul", "div")
    wanted = ("Tensor_Scalar", "Scalar") if number and not arithmetic else ("Tensor", "Tensor_Tensor", "self")
    overload: OpOverload = getattr(packet, next((each for each in wanted if each in packet.overloads()), "default"))
    return overload
