"""The arguments of a call, whichever way they are written."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from functools import cache
from keyword import iskeyword
from typing import Any, NamedTuple

from torch import nn
from torch._ops import OpOverload

from fxopt_core.graphs.literal_keys import literal_key
from fxopt_core.graphs.operations import operator_behind

Name = str | int
"""An argument's name; its position where the names are not known."""


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
    return isinstance(target, OpOverload) or operator_behind(target) is not None


@cache
def _layout(target: Hashable, count: int, names: tuple[str, ...]) -> _Layout:
    """What all signatures that fit agree on."""
    fitted = [one for signature in _signatures(target) if (one := _fit(signature, count, names)) is not None]
    if len({one.given for one in fitted}) != 1:
        return _Layout((*range(count), *names), {})
    first, *others = fitted

    def agreed(name: Name, value: Any) -> bool:
        found = [one.left_out[name] for one in others if name in one.left_out]
        same = all(literal_key(other, {}) == literal_key(value, {}) for other in found)
        return same and len(found) == len(others)

    # A default on which they do not agree is not filled in: then only equal spellings are equal.
    return _Layout(first.given, {name: value for name, value in first.left_out.items() if agreed(name, value)})


def _fit(signature: inspect.Signature, count: int, names: tuple[str, ...]) -> _Layout | None:
    parameters = list(signature.parameters)
    if "input" in names and parameters[:1] == ["self"]:
        # So PyTorch's functions call what the schema of the operator calls `self`.
        names = tuple("self" if name == "input" else name for name in names)
    try:
        given = signature.bind(*range(count), **dict.fromkeys(names)).arguments
    except TypeError:
        return None
    left_out: dict[Name, Any] = {name: each.default for name, each in signature.parameters.items() if name not in given}
    return _Layout((*parameters[:count], *names), left_out)


@cache
def _signatures(target: Hashable) -> tuple[inspect.Signature, ...]:
    if isinstance(target, OpOverload):
        return (_of_schema(target),)
    if (packet := operator_behind(target)) is not None:
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
        signature = inspect.signature(function)
    except ValueError:
        return ()
    parameters = list(signature.parameters.values())
    if {each.kind for each in parameters} & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        return ()
    return (signature if function is target else signature.replace(parameters=parameters[1:]),)


def _of_schema(operator: OpOverload) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                # Python knows no argument called `from`, as that of `uniform_` is.
                f"{argument.name}_" if iskeyword(argument.name) else argument.name,
                inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else inspect.Parameter.empty,
            )
            for argument in operator._schema.arguments
        ]
    )
