"""What calling a function does besides returning a value: derived from operator schemas and tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        raises: whether it succeeds is decided by the values that it is given, not by shapes and dtypes alone.
        divides: it raises where an integer is divided by zero.
        statistics: arguments that are written unless a mode argument is `False`; of a module, its own that it writes.
        outs: arguments, given by name only, into which a call writes its result if it is given them.
        joins: groups of arguments; if all of a group are containers of Python, the result holds what they all hold.
        reshapes: what it writes may get another shape, too, or be another tensor altogether.
        container: its result may be a container of Python that holds tensors.
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
    raises: bool = False
    divides: bool = False
    statistics: frozenset[str] = frozenset()
    outs: frozenset[str] = frozenset({"out"})
    joins: tuple[tuple[str, ...], ...] = ()
    reshapes: bool = False
    container: bool = False
    opaque: bool = False

    @cached_property
    def plain(self) -> bool:
        """Whether every call without one of `outs` returns new storage and does nothing else."""
        # Whatever else is known of it, now or later, counts.
        nothing = Behaviour(names=self.names, defaults=self.defaults, outs=self.outs, container=self.container)
        return self == nothing and not CONDITIONAL.intersection(self.names)


CONDITIONAL = frozenset({"inplace", "max_norm", "out"})
"""Arguments that make a call write, if it has them. (A few functions in Python take `out` by position.)"""

OPAQUE = Behaviour(opaque=True, container=True)
CONTEXT = Behaviour(context=True)
CHECK = Behaviour(checks=True)
FRESH = Behaviour()
MAY_ALIAS = Behaviour(aliases=EVERY)
MAY_ALIAS_OR_COLLECT = Behaviour(aliases=EVERY, container=True)


def _is_tensor(type_: Any) -> bool:
    return "Tensor" in str(type_)


def _is_composite(operator: OpOverload) -> bool:
    """Whether the operator is a function over other operators, whose schema need not name its aliases."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd"))


RETURNS_NEW_STORAGE = frozenset(
    "linear bilinear matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d layer_norm "
    "group_norm rms_norm softmax log_softmax scaled_dot_product_attention embedding_bag cross_entropy_loss nll_loss "
    "max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d relu6 "
    "batch_norm instance_norm "
    "sort selu log_sigmoid cosine_similarity one_hot square std var std_mean var_mean max min nanmean prelu outer kron "
    "isclose isfinite isreal hstack vstack dstack column_stack tile where subtract multiply divide "
    "true_divide margin_ranking_loss poisson_nll_loss triplet_margin_loss cosine_embedding_loss".split()
)
"""Composite operators that never return an argument. Whatever is missing here is taken to return one: the names add
precision, not safety, and the test over PyTorch's sample inputs holds them to it."""


RETURNS_WHAT_IT_IS_GIVEN = frozenset(
    "lift set _unsafe_view unsafe_split unsafe_split_with_sizes _pin_memory q_per_channel_scales "
    "q_per_channel_zero_points _add_batch_dim _remove_batch_dim device_put "
    "sparse_compressed_tensor sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor "
    "sparse_bsc_tensor _sparse_coo_tensor_with_dims_and_tensors _sparse_compressed_tensor_with_dims "
    "_foobar _test_parallel_materialize".split()
)
"""Operators that are no composites and yet may return storage of an argument of which their schema says nothing."""

CHANGES_MORE_THAN_IT_SAYS = frozenset("set_ set_data from_file slow_conv_transpose2d slow_conv_transpose3d".split())
"""Operators that swap a tensor's storage for another one, return storage that somebody else holds, or (the last two, in
PyTorch 2.13, given an input without a batch) leave their input with another shape."""

_CHECKING = ("assert", "constrain", "check", "validate")


_INDICES = frozenset("index indices target offsets repeats pivots LU_pivots".split())
"""Arguments whose values have to lie in a range, where they are tensors: what they pick from ends somewhere."""

_SOLVES = tuple("linalg_ _linalg_ cholesky lu_ inverse pinverse ormqr triangular_solve svd logdet".split())
_SOLVES_NOTHING = frozenset(
    "linalg_vector_norm linalg_cross linalg_vecdot linalg_diagonal linalg_matmul linalg_multi_dot linalg_vander".split()
)
_WANTS_A_RANGE = frozenset(
    "bincount binary_cross_entropy one_hot histc histogram histogramdd _histogramdd_bin_edges masked_scatter "
    "repeat_interleave ctc_loss _ctc_loss segment_reduce cov corrcoef linspace logspace narrow tensor_split "
    "nuclear_norm".split()
)
_DIVIDES = frozenset("floor_divide fmod remainder __rmod__ __rfloordiv__".split())


def _raises(operator: OpOverload, name: str) -> bool:
    """Whether the operator refuses some values: indices out of range, singular matrices, numbers without meaning.

    No tag says so. A test feeds hostile values to PyTorch's sample inputs of every operator, and holds this to it.
    """
    if name in _SOLVES_NOTHING or name.endswith("_ex"):
        return False
    picks = any(argument.name in _INDICES and _is_tensor(argument.type) for argument in operator._schema.arguments)
    return picks or name in _WANTS_A_RANGE or name.startswith(_SOLVES)


def _checks(schema: FunctionSchema, name: str) -> bool:
    """Whether the operator is called for the exception that it may raise.

    Functionalised assertions return a token, which later ones take; the last token has no user.
    """
    return any(word in name for word in _CHECKING) and (not schema.returns or name.startswith("_functional_"))


@cache
def behaviour_of_operator(operator: OpOverload) -> Behaviour:
    """What one operator overload does, by its schema and tags.

    The schema is believed where it is explicit. It is distrusted in a few places, which a test over all of PyTorch's
    sample inputs covers: composite operators need not name the aliases that they return, a few others do not either,
    and batch normalisation does not name the statistics that it writes. What only TorchScript knows is opaque.
    """
    name = operator._schema.name.split("::")[1]
    known = operator.namespace in TRUSTED_NAMESPACES and torch._C._dispatch_has_kernel(operator.name())
    if not known or name in CHANGES_MORE_THAN_IT_SAYS:
        return OPAQUE
    schema: FunctionSchema = operator._schema
    names = tuple(argument.name for argument in schema.arguments)
    annotated = [argument for argument in schema.arguments if argument.alias_info is not None]
    writes = frozenset(part.name for part in annotated if part.alias_info is not None and part.alias_info.is_write)
    aliases = frozenset(argument.name for argument in annotated)
    composite = _is_composite(operator)
    returns_tensor = any(_is_tensor(result.type) for result in schema.returns)
    takes_tensor = any(_is_tensor(argument.type) for argument in schema.arguments)
    unsaid = returns_tensor and takes_tensor and not aliases and name not in RETURNS_NEW_STORAGE
    tagged = torch.Tag.maybe_aliasing_or_mutating in operator.tags
    if unsaid and (composite or tagged or name in RETURNS_WHAT_IT_IS_GIVEN):
        aliases = EVERY
    checks = not writes and _checks(schema, name)
    if not (schema.returns or writes or checks):
        return OPAQUE  # it is called for something else than its result
    keeps = name.endswith(_KEEPS_STATISTICS)
    defaulted = [argument for argument in schema.arguments if argument.has_default_value()]
    return Behaviour(
        names=names,
        defaults={argument.name: argument.default_value for argument in defaulted},
        writes=writes,
        # Batch normalisation returns none of the statistics that it writes.
        aliases=aliases - STATISTICS,
        view=operator.is_view and not composite and not writes,
        random=torch.Tag.nondeterministic_seeded in operator.tags or {"dropout", "train"} <= {*names},
        checks=checks,
        raises=_raises(operator, name),
        divides=name in _DIVIDES or "rounding_mode" in names,
        container=len(schema.returns) > 1 or any("List" in str(result.type) for result in schema.returns),
        # A destination gets the size of the result.
        reshapes=torch.Tag.inplace_view in operator.tags or any(argument.is_out for argument in schema.arguments),
        statistics=frozenset() if keeps else STATISTICS.intersection(names) - writes,
        # One overload takes no argument that its schema does not name.
        outs=frozenset(),
    )


@cache
def behaviour_of_packet(packet: OpOverloadPacket) -> Behaviour:
    """What a call by name may do: the union over the overloads that take or return tensors."""
    overloads = [getattr(packet, name) for name in packet.overloads()]
    overloads = [
        overload
        for overload in overloads
        if torch._C._dispatch_has_kernel(overload.name())
        and any(_is_tensor(part.type) for part in (*overload._schema.arguments, *overload._schema.returns))
    ]
    outs = {argument.name for overload in overloads for argument in overload._schema.arguments if argument.is_out}
    plain = [overload for overload in overloads if not any(argument.is_out for argument in overload._schema.arguments)]
    behaviours = [behaviour_of_operator(overload) for overload in plain or overloads]
    if not behaviours or any(behaviour.opaque for behaviour in behaviours):
        return OPAQUE
    longest = max(behaviours, key=lambda behaviour: len(behaviour.names))

    def in_longest(part: Callable[[Behaviour], frozenset[str]]) -> frozenset[str]:
        """The union over overloads, which may call an argument differently, but have it at the same place."""
        return frozenset(
            name if name in longest.names or name not in behaviour.names else longest.names[behaviour.names.index(name)]
            for behaviour in behaviours
            for name in part(behaviour)
        )

    aliases = in_longest(lambda behaviour: behaviour.aliases)
    return Behaviour(
        names=longest.names,
        defaults=longest.defaults,
        writes=in_longest(lambda behaviour: behaviour.writes),
        aliases=EVERY if any(behaviour.aliases == EVERY for behaviour in behaviours) else aliases,
        random=any(behaviour.random for behaviour in behaviours),
        checks=all(behaviour.checks for behaviour in behaviours),
        raises=any(behaviour.raises for behaviour in behaviours),
        divides=any(behaviour.divides for behaviour in behaviours),
        reshapes=any(behaviour.reshapes for behaviour in behaviours),
        statistics=longest.statistics,
        outs=frozenset(outs) if plain else frozenset(),
        container=any(behaviour.container for behaviour in behaviours),
    )
