"""Operations that only change how a tensor lies in memory, and what tells their results apart."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import fx

from fxopt_core.graphs.examples import called, example_of
from fxopt_core.graphs.operations import Operations
from fxopt_core.passes.substitution import size_key

TURNS = frozenset("permute transpose t mT numpy_T".split())
"""Permutations of dimensions."""

VIEWS = TURNS | frozenset(
    "alias detach expand expand_as broadcast_to movedim narrow select slice squeeze unflatten unsqueeze view view_as "
    "lift_fresh".split()
)
"""Always a view of the first argument: with the same offset, shape and strides it is the same tensor."""

CASTS = frozenset("to _to_copy type_as float double half bfloat16 long int short char byte bool".split())

KEEPS_ORDER = CASTS | frozenset(
    "alias clone contiguous detach flatten lift_fresh lift_fresh_copy ravel reshape squeeze unflatten unsqueeze view "
    "view_as _unsafe_view".split()
)
"""The elements of the first argument in the same order, as a view or a copy: with the same shape they are the same."""

RETURNS_ITSELF = (CASTS - {"_to_copy"}) | {"contiguous"}
"""Returns its very argument where there is nothing to do."""

FOLLOWS_ORDER = CASTS | frozenset("_unsafe_view clone contiguous flatten ravel reshape view".split())
"""What it gives depends on the elements of its argument and their order, and on the shape at most."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

OPERATIONS = Operations((*VIEWS, *KEEPS_ORDER))


def holds_every(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether `wide` holds every number of `narrow` exactly."""
    if wide == narrow or narrow == torch.bool:
        return True
    if narrow in INTEGERS and wide in INTEGERS:
        inner, outer = torch.iinfo(narrow), torch.iinfo(wide)
        return outer.min <= inner.min and inner.max <= outer.max
    if narrow in INTEGERS and wide in FLOATS:
        largest = 2.0 / torch.finfo(wide).eps  # up to here every integer is a number of this dtype
        return torch.iinfo(narrow).max <= min(largest, torch.finfo(wide).max)
    if narrow in FLOATS and wide in FLOATS:
        small, large = torch.finfo(narrow), torch.finfo(wide)
        return large.eps <= small.eps and large.max >= small.max and large.tiny <= small.tiny
    return False


def one_cast_does(first: torch.dtype, between: torch.dtype, last: torch.dtype) -> bool:
    """Whether a cast through a dtype that loses nothing is a cast: C++ leaves open what a real number out of range
    becomes as an integer."""
    return last not in INTEGERS or between not in FLOATS or holds_every(last, first)


def reads_bits(node: fx.Node) -> bool:
    """Whether the node is a view of the same bits as numbers of a dtype, which is no cast."""
    given = (*node.args[1:], *node.kwargs.values())
    return OPERATIONS.name_of(node) == "view" and any(type(argument) is torch.dtype for argument in given)


def may_have_gradient(node: fx.Node) -> bool:
    """Whether the value may be one that autograd knows: a real or complex number, as far as the capture says."""
    example = example_of(node)
    return example is None or example.is_floating_point() or example.is_complex()


def form(node: fx.Node) -> Hashable:
    """What tells two tensors with the same elements in the same order apart."""
    example = example_of(node)
    assert example is not None
    if example.layout != torch.strided:
        return node
    lazy = (example.is_conj(), example.is_neg())
    return (example.dtype, size_key(example.shape), size_key(example.stride()), str(example.device), *lazy)


def geometry(node: fx.Node) -> Hashable:
    """What tells two views of one storage apart."""
    example = example_of(node)
    assert example is not None
    if example.layout != torch.strided:
        return node
    return (form(node), size_key((example.storage_offset(),)))


def computed(node: fx.Node, first: torch.Tensor) -> torch.Tensor | None:
    """What a node would give for another first argument, without data; `None` where it would not run."""
    rest = node.args[1:]
    if any(example_of(each) is None for each in rest if isinstance(each, fx.Node)):
        return None
    args, kwargs = fx.node.map_arg((rest, dict(node.kwargs)), example_of)
    with torch.no_grad():
        try:
            result: torch.Tensor = called(node, (first, *args), kwargs)
        except (RuntimeError, ValueError):  # a view of other strides, say: then it has to read what it reads
            return None
    return result


def permutation(node: fx.Node) -> list[int] | None:
    """Which dimension of its argument each dimension of a node's result is; `None` where only a run can tell."""
    example = example_of(node)
    if example is None:
        return None
    # Where all sizes differ, they say it.
    found = computed(node, torch.empty(tuple(range(1, example.dim() + 1)), device="meta"))
    return None if found is None else [size - 1 for size in found.shape]
