"""FLOPs and memory traffic of the operators that run in a block."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


@dataclass(frozen=True)
class Cost:
    """What some work costs.

    Attributes:
        flops: floating-point operations of matrix products, convolutions and attention, a multiply-add being two.
            Everything else (element by element, reductions, normalisation, softmax) counts none: it takes as long
            as its bytes take.
        bytes_read: bytes of the operands of each operator, each operand once. Of a table, the rows that are looked up.
        bytes_written: bytes of the results of each operator. A view moves nothing.
        uncounted: names of the operators that no formula is known for, so that `flops` leaves them out.
    """

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    uncounted: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            tuple(dict.fromkeys((*self.uncounted, *other.uncounted))),
        )

    @property
    def bytes(self) -> int:
        """Bytes moved to and from memory."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved; `nan` where nothing is moved."""
        return self.flops / self.bytes if self.bytes else math.nan


@flop_counter.shape_wrapper
def _whole(a: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a)


@flop_counter.shape_wrapper
def _columns(a: Any, b: Any, *_: Any, **__: Any) -> int:
    # Of several matrices on the left and one on the right, each meets its own columns.
    left = a[1:] if len(a) > len(b) else a
    return 2 * math.prod(left) * b[-1]


@flop_counter.shape_wrapper
def _after_addend(addend: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a) * (b[-1] if len(b) > 1 else 1)


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu{0} _scaled_dot_product_fused_attention_overrideable{0}"

FORMULAS: Mapping[Any, Callable[..., int]] = {
    getattr(aten, name): formula
    for names, formula in (
        ("mv dot vdot", _whole),
        ("_int_mm _grouped_mm", _columns),
        ("addmv addmv_ addmm_ addbmm addbmm_ baddbmm_ _addmm_activation", _after_addend),
        (_ATTENTION.format("") + " _scaled_dot_product_attention_math_for_mps", flop_counter.sdpa_flop),
        (_ATTENTION.format("_backward"), flop_counter.sdpa_backward_flop),
    )
    for name in names.split()
    if hasattr(aten, name)
}
"""What torch's own registry (`torch.utils.flop_counter`, asked first) has no formula for."""

_CONTRACTS = re.compile(
    "linalg|cholesky|(^|_)lu_|ormqr|geqrf|triangular_solve|spsolve|fft|cdist|euclidean|trilinear|rnn|lstm|gru|conv|mm|"
    "linear|attention|transformer|multi_head|matmul|addmv"
)
_CONTRACTS_NOT = re.compile(
    "upsample|convert|reorder|_pack|unpack|cummin|hamming|gamma|dummy|freq|norm|cross|powsum|combination|check_errors|"
    "_cell|slice|diagonal"
)

LOOK_UPS = {getattr(aten, name) for name in ("embedding", "_embedding_bag", "index", "index_select", "gather", "take")}
"""Operators that read of their first operand no more than they look up."""

OVERWRITES = {getattr(aten, name) for name in ("copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_")}
"""Operators in place that do not read what they overwrite."""

_MOVES_NOTHING = {
    getattr(aten, name)
    for name in (
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
        "_assert_tensor_metadata",
    )
}


class Counter(TorchDispatchMode):
    """Adds up the cost of all operators that reach PyTorch's dispatcher while it is entered.

    Composite operators arrive as what they are made of: `linear` as `addmm`, `einsum` as `bmm`. Works on fake
    tensors too.

    Attributes:
        cost: so far.
        dtype: of the first operand of the operator with the most FLOPs; `None` before there is one.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.cost = Cost()
        self.dtype: torch.dtype | None = None
        self._most = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.namespace != "prim":
            self.count(func, args, kwargs, result)
        return result

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Add the cost of one call of an operator, of which this came out."""
        packet = func.overloadpacket if isinstance(func, OpOverload) else func
        formula = flop_counter.flop_registry.get(packet) or FORMULAS.get(packet)
        flops = int(formula(*args, **kwargs, out_val=result)) if formula else 0
        known = formula or not may_contract(str(func))
        self.cost += Cost(flops, *_traffic(func, packet, args, kwargs, result), () if known else (str(func),))
        if flops > self._most:
            self._most = flops
            self.dtype = next(leaf.dtype for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))


def may_contract(name: str) -> bool:
    """Whether an operator may do what counts as FLOPs, by its full name, such as `aten.mm.default`.

    An operator that is not PyTorch's own may do anything.
    """
    namespace, _, bare = name.partition(".")
    if namespace not in ("aten", "prims"):
        return True
    return _CONTRACTS.search(bare) is not None and _CONTRACTS_NOT.search(bare) is None


def _traffic(func: Any, packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> tuple[int, int]:
    """Bytes read and written by one call of an operator."""
    operands = {id(leaf): leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
    stored = {storage_of(operand) for operand in operands.values()}
    results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    fresh = sum(tensor_bytes(leaf) for leaf in results if storage_of(leaf) not in stored)
    changed = _changed(func, args, kwargs)
    if packet in _MOVES_NOTHING or (not fresh and not changed and results):
        return 0, 0
    sizes = {key: tensor_bytes(operand) for key, operand in operands.items()}
    if packet.__name__.startswith("new_") or packet.__name__.endswith("_like"):
        sizes = {}
    if packet in LOOK_UPS and isinstance(args[0], torch.Tensor):
        sizes[id(args[0])] = min(sizes[id(args[0])], tensor_bytes(results[0]))
    if packet in OVERWRITES:
        sizes[id(args[0])] = 0
    return sum(sizes.values()), fresh + sum(tensor_bytes(tensor) for tensor in changed)


def _changed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The operands that a call writes, by the operator's schema."""
    if isinstance(func, HigherOrderOperator):
        return []
    found = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return found


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory that the elements of a strided tensor lie in; an expanded dimension takes one element."""
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} has no bytes that can be told from its shape.")
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(sizes) * tensor.element_size() if tensor.numel() else 0


def storage_of(tensor: torch.Tensor) -> int:
    """What tensors over the same memory have in common, as long as one of them lives."""
    return tensor.untyped_storage()._cdata
