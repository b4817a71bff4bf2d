"""The arguments of a call, whichever way they are written."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from functools import cache
from types import BuiltinFunctionType
from typing import Any, NamedTuple

from torch import nn
from torch._ops import OpOverload, OpOverloadPacket

from fxopt_core.graphs.literal_keys import literal_key
from fxopt_core.graphs.operations import packet_named

Name = str | int
"""An argument's name; its position where the names are not known."""


class _Signature(NamedTuple):
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    defaults: dict[str, Any]


class _Layout(NamedTuple):
    """How one way of writing a call is read: names of what is given, by position or not; values of what is left out."""

    given: tuple[Name, ...]
    left_out: dict[Name, Any]


def arguments_of(target: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[Name, Any]:
    """The arguments of a call by name, with the defaults of those that are left out.

    Given by name or by position, or left at the default: it comes to the same. Where the names are not known (a
    method with a variable number of arguments, say), arguments keep their positions and nothing is filled in.

    Args:
        target: of a `call_function` node; of a `call_method` node, the method's name; or the class of a module.
        args: positional arguments, without the module itself.
        kwargs: arguments given by name.
    """
    layout = _layout(target, len(args), tuple(kwargs))
    return {**dict(zip(layout.given, (*args, *kwargs.values()), strict=True)), **layout.left_out}


def has_schema(target: Hashable) -> bool:
    """Whether the call goes to an operator, for which a list and a tuple are the same."""
    return isinstance(target, (OpOverload, OpOverloadPacket)) or _packet(target) is not None


@cache
def _layout(target: Hashable, count: int, names: tuple[str, ...]) -> _Layout:
    """What all signatures that fit agree on."""
    found: _Layout | None = None
    for signature in _signatures(target):
        fitted = _fit(signature, count, names)
        if fitted is None:
            continue
        if found is None:
            found = fitted
        elif found.given != fitted.given:
            found = None
            break
        else:
            # A default on which they do not agree is not filled in: then only equal spellings are equal.
            common = found.left_out.keys() & fitted.left_out.keys()
            agreed = {name: value for name, value in found.left_out.items() if name in common
                      and literal_key(value, {}) == literal_key(fitted.left_out[name], {})}  # fmt: skip
            found = _Layout(found.given, agreed)
    return found if found is not None else _Layout((*range(count), *names), {})


def _fit(signature: _Signature, count: int, names: tuple[str, ...]) -> _Layout | None:
    if count > len(signature.positional):
        return None
    if "input" in names and signature.positional[:1] == ("self",):
        # So PyTorch's functions call what the schema of the operator calls `self`.
        names = tuple("self" if name == "input" else name for name in names)
    positional, rest = signature.positional[:count], (*signature.positional[count:], *signature.keyword_only)
    missing = [name for name in rest if name not in names and name not in signature.defaults]
    if missing or any(name not in rest for name in names):
        return None
    return _Layout((*positional, *names), {name: signature.defaults[name] for name in rest if name not in names})


@cache
def _signatures(target: Hashable) -> tuple[_Signature, ...]:
    if isinstance(target, OpOverload):
        return (_of_schema(target),)
    packet = target if isinstance(target, OpOverloadPacket) else _packet(target)
    if packet is not None:
        return tuple(
            _of_schema(overload)
            for overload in (getattr(packet, name) for name in packet.overloads())
            # Others are for scalars and lists, or are only called with `out`.
            if any("Tensor" in str(argument.type) for argument in overload._schema.arguments)
            and not any(argument.is_out for argument in overload._schema.arguments)
        )
    function = target.forward if isinstance(target, type) and issubclass(target, nn.Module) else target
    if not callable(function):
        return ()
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return ()
    kinds = {parameter.kind for parameter in parameters}
    if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return ()
    if function is not target:
        parameters = parameters[1:]
    return (
        _Signature(
            tuple(each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY),
            tuple(each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY),
            {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty},
        ),
    )


def _packet(target: Hashable) -> OpOverloadPacket | None:
    """The operator behind a function of PyTorch in C++, or behind a method of tensors."""
    name = target if isinstance(target, str) else ""
    if isinstance(target, BuiltinFunctionType) and (target.__module__ or "").startswith("torch"):
        name = target.__name__
    return None if name.startswith("_") else packet_named(name)


def _of_schema(operator: OpOverload) -> _Signature:
    arguments = operator._schema.arguments
    return _Signature(
        tuple(argument.name for argument in arguments if not argument.kwarg_only),
        tuple(argument.name for argument in arguments if argument.kwarg_only),
        {argument.name: argument.default_value for argument in arguments if argument.has_default_value()},
    )
