"""What calling a function does besides returning a value: derived from operator schemas and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import torch
from torch._C import FunctionSchema
from torch._ops import OpOverload, OpOverloadPacket

EVERY = frozenset({"*"})
"""In `Behaviour.aliases`: the result may share storage with any argument."""

TRUSTED_NAMESPACES = frozenset({"aten", "prims"})
"""Namespaces whose schemas are believed. A custom operator may print, or draw without saying so."""

MODE_ARGUMENTS = ("training", "train", "use_input_stats")
"""Arguments that, when `False`, keep an operator from drawing and from updating statistics."""

STATISTICS = frozenset({"running_mean", "running_var"})
_KEEPS_STATISTICS = ("_functional", "_no_training", "_no_update", "_backward")


@dataclass(frozen=True)
class Behaviour:
    """What a call of one function does, by the names of its arguments.

    Attributes:
        names: the arguments in positional order.
        defaults: values of arguments that a call may leave out.
        writes: arguments whose storage is always written.
        aliases: arguments whose storage the result may share; `EVERY` for any of them.
        view: the result always is the same view of its first argument, never a copy.
        random: it draws from the random stream, unless an argument says otherwise.
        context: it switches the mode in which later nodes run (gradients, autocast).
        checks: it may stop the program; it is called for that, not for its result.
        statistics: arguments that are written unless a mode argument is `False`.
        opaque: nothing is known.
    """

    names: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    writes: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    view: bool = False
    random: bool = False
    context: bool = False
    checks: bool = False
    statistics: frozenset[str] = frozenset()
    opaque: bool = False

    @cached_property
    def plain(self) -> bool:
        """Whether every call without `out` returns new storage and does nothing else."""
        return not (
            self.writes
            or self.aliases
            or self.random
            or self.context
            or self.checks
            or self.statistics
            or self.opaque
            or CONDITIONAL.intersection(self.names)
        )


CONDITIONAL = frozenset({"inplace", "max_norm"})
"""Arguments that make a call write, if it has them. (`out` does too; it is only ever given by name.)"""

OPAQUE = Behaviour(opaque=True)
CONTEXT = Behaviour(context=True)
CHECK = Behaviour(checks=True)
FRESH = Behaviour()
MAY_ALIAS = Behaviour(aliases=EVERY)


def _is_tensor(type_: Any) -> bool:
    return "Tensor" in str(type_)


def _is_composite(operator: OpOverload) -> bool:
    """Whether the operator is a function over other operators, whose schema need not name its aliases."""
    name = operator.name()
    known = torch._C._dispatch_has_kernel(name)
    return bool(known and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


RETURNS_NEW_STORAGE = frozenset(
    "linear bilinear matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d layer_norm "
    "group_norm rms_norm softmax log_softmax scaled_dot_product_attention embedding_bag cross_entropy_loss nll_loss "
    "max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d relu6 "
    "selu log_sigmoid cosine_similarity one_hot square std var where subtract multiply divide true_divide".split()
)
"""Composite operators that never return an argument. Whatever is missing here is taken to return one: the names add
precision, not safety, and the test over PyTorch's sample inputs holds them to it."""


@cache
def behaviour_of_operator(operator: OpOverload) -> Behaviour:
    """What one operator overload does, by its schema and tags.

    The schema is believed where it is explicit. It is distrusted in two places, which a test over all of PyTorch's
    sample inputs covers: composite operators need not name the aliases that they return, and batch normalisation
    does not name the statistics that it writes.
    """
    if operator.namespace not in TRUSTED_NAMESPACES:
        return OPAQUE
    schema: FunctionSchema = operator._schema
    names = tuple(argument.name for argument in schema.arguments)
    annotated = [argument for argument in schema.arguments if argument.alias_info is not None]
    writes = frozenset(part.name for part in annotated if part.alias_info is not None and part.alias_info.is_write)
    aliases = frozenset(argument.name for argument in annotated)
    composite = _is_composite(operator)
    name = operator._schema.name.split("::")[1]
    returns_tensor = any(_is_tensor(result.type) for result in schema.returns)
    takes_tensor = any(_is_tensor(argument.type) for argument in schema.arguments)
    unsaid = returns_tensor and takes_tensor and not aliases and name not in RETURNS_NEW_STORAGE
    if unsaid and (composite or torch.Tag.maybe_aliasing_or_mutating in operator.tags or name.startswith("_unsafe")):
        aliases = EVERY
    keeps = name.endswith(_KEEPS_STATISTICS)
    defaulted = [argument for argument in schema.arguments if argument.has_default_value()]
    return Behaviour(
        names=names,
        defaults={argument.name: argument.default_value for argument in defaulted},
        writes=writes,
        aliases=aliases,
        view=operator.is_view and not composite and not writes,
        random=torch.Tag.nondeterministic_seeded in operator.tags,
        checks=not schema.returns and not writes,
        statistics=frozenset() if keeps else STATISTICS.intersection(names) - writes,
    )


@cache
def behaviour_of_packet(packet: OpOverloadPacket) -> Behaviour:
    """What a call by name may do: the union over the overloads that take or return tensors."""
    overloads = [getattr(packet, name) for name in packet.overloads()]
    taken = [
        overload
        for overload in overloads
        if any(_is_tensor(part.type) for part in (*overload._schema.arguments, *overload._schema.returns))
    ]
    plain = [overload for overload in taken if not any(argument.is_out for argument in overload._schema.arguments)]
    behaviours = [behaviour_of_operator(overload) for overload in plain or taken]
    if not behaviours:
        return OPAQUE
    longest = max(behaviours, key=lambda behaviour: len(behaviour.names))
    writes = any(behaviour.writes for behaviour in behaviours)
    return Behaviour(
        names=longest.names,
        defaults=longest.defaults,
        writes=frozenset(longest.names[:1]) if writes else frozenset(),
        aliases=EVERY if any(behaviour.aliases for behaviour in behaviours) else frozenset(),
        random=any(behaviour.random for behaviour in behaviours),
        checks=all(behaviour.checks for behaviour in behaviours),
        statistics=longest.statistics,
        opaque=any(behaviour.opaque for behaviour in behaviours),
    )
