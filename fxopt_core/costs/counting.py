"""FLOPs and memory traffic of the operators that run in a block."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fxopt_core.graphs.arguments import arguments_of

aten = torch.ops.aten


@dataclass(frozen=True)
class Cost:
    """What some work costs.

    Attributes:
        flops: floating-point operations of matrix products, convolutions and attention, a multiply-add being two.
            Everything else (element by element, reductions, normalisation, softmax) counts none: it takes as long
            as its bytes take.
        bytes_read: bytes of the operands of each operator, each operand once. Of a table, the rows that are looked up;
            of what is overwritten in place, nothing, and of what is added to in place by indices, the rows they name.
        bytes_written: bytes of the results of each operator. A view moves nothing. In place by indices, the rows that
            they name are written, a row named twice counting twice; by a mask, all that it lies over.
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


@flop_counter.shape_wrapper
def _by_result(a: Any, *_: Any, out_shape: Any, **__: Any) -> int:
    # The weight may be packed, so that its shape tells nothing.
    return 2 * math.prod(out_shape) * a[-1]


@flop_counter.shape_wrapper
def _recurrent(steps: Any, *weights: Any, **_: Any) -> int:
    # Every step of every sequence meets every matrix; biases have one dimension. A direction of a layer that runs in a
    # call of its own has its weights as operands; else they are a list.
    listed = weights[0] if isinstance(weights[0], list) else weights[:4]
    return 2 * math.prod(steps[:-1]) * sum(math.prod(shape) for shape in listed if len(shape) == 2)


_FOR_CPU = "_scaled_dot_product_flash_attention_for_cpu{0} _scaled_dot_product_fused_attention_overrideable{0}"
_GROUPED = (
    *("aten::_grouped_mm", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2"),
    "transformers::grouped_mm_fallback",
)
"""Products of the rows of one matrix with one of several each, as of tokens with the weights of their experts."""

FORMULAS: Mapping[str, Callable[..., int]] = {
    name if "::" in name else f"aten::{name}": formula
    for names, formula in (
        ("mv dot vdot", _whole),
        (f"_int_mm _scaled_mm_v2 {' '.join(_GROUPED)}", _columns),
        ("addmv addmv_ addmm_ addbmm addbmm_ baddbmm_ _addmm_activation", _after_addend),
        ("linear mkldnn_linear affine_grid_generator _mixed_dtypes_linear _weight_int8pack_mm", _by_result),
        ("_weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros", _by_result),
        ("_dyn_quant_matmul_4bit", _by_result),
        ("mkldnn_rnn_layer _cudnn_rnn miopen_rnn", _recurrent),
        (f"{_FOR_CPU.format('')} _scaled_dot_product_attention_math_for_mps", flop_counter.sdpa_flop),
        (_FOR_CPU.format("_backward"), flop_counter.sdpa_backward_flop),
    )
    for name in names.split()
}
"""What torch's own registry (`torch.utils.flop_counter`, asked first) has no formula for, by qualified name."""

_OWN = ("aten", "prims", "quantized_decomposed")
"""Namespaces of PyTorch's own operators."""

_WORDS = frozenset(
    """
    2d 3d aa accumulate adagrad adam adamw adaptive add addr affine aligned all allclose amp and any arange argsort
    arithmetic as assert async avg axis backward bag bartlett batch bernoulli bessel bias bicubic2d bilinear2d bin
    binary bincount binomial blackman block bounded broadcast bsc bsr bucketize cachemask cat cauchy cbrt channel
    check choose chunk clear clone coalesced col2im collapse complex compressed consecutive constant constrain
    convert coo copy count counts cpu cross csc csr cts cudnn cummax cummin cumprod cumsum data dense dep dequantize
    device diag diagonal dim dimI dimV dims dirichlet dist divide dropout dtype dynamic edges efficientzerotensor
    element elemt embed embedding empty entropy erfcx exact1d exact2d exact3d example expand exponential eye fake
    fallback feature file fill finite flip floor fold for foreach forward fq fractional from full functional fused gamma
    gather geometric glu grad grid group hamming hann hardswish has hash helper histc histogram histogramdd huber i0
    i0e i1 i1e im2col impl in index indices int interface interleave iota irshift is isin item j0 j1 jagged jvp
    kaiser kernel key kthvalue l1 lanczos2d layer lazy learnable left legit lengths lift like linear1d linspace list
    local log logcumsumexp logits logspace loss loss2d make margin mask masked max maximum median meta metadata min
    minimum miopen mkldnn mode moving mse multi multilabel multinomial nanmedian native nd ndtri nearest nearest1d
    nearest2d nearest3d nested new nll nnz no noise non nonzero norm normal numel obs offsets ones only output pack
    pad pad1d pad2d pad3d padded per permuted philox pinned pixel point points poisson polar pool1d pool2d pool3d
    powsum prelu print prod put q qparams qscheme quantize quantized ragged rand randint randn random randperm range
    record reduce reflection relu renorm repeat replication repr reshape resize rev right rms roll rot90 rrelu safe
    same sample sampler scalar scale scales scatter searchsorted segment select seqlen sequence set sgd shift
    shuffle sigmoid size sizes slice smooth soft softmax sort sparse spdiags spherical split stack standard static
    stats storage stream stride strided sum sym symmetric take tensor tensors to token topk trace training transpose
    tril trilinear3d triu true type uniform unique unique2 unpool2d unpool3d unsafe unscale unshuffle unsqueeze
    update upsample validate value values view weight weights where window with xor zero zeros zeta
    erf_inv fft_fftfreq fft_rfftfreq linalg_check_errors linalg_cross lu_unpack sparse_mask_projection
    thnn_fused_gru_cell thnn_fused_lstm_cell thnn_fused_lstm_cell_backward_impl transform_bias_rescale_qkv
    """.split()
)
"""Of these words are made the names of operators that multiply no matrices; the last are whole names."""

_AROUND = re.compile("^_*(foreach_)?|(_copy|_backward|_functional)?_*$")
"""What a name has more than that of the work that it goes with: of one tensor, forward, out of place."""


def _operators(names: str) -> set[Any]:
    return {getattr(aten, name) for name in names.split()}


LOOK_UPS = _operators("embedding index _unsafe_index index_select gather take")
"""Operators that read of their first operand no more than they return."""

BAGS = _operators("_embedding_bag _embedding_bag_forward_only")
"""Operators that look up rows of their first operand, and return less."""

OVERWRITES = _operators("copy_ fill_ zero_ normal_ uniform_ bernoulli_")
"""Operators in place that do not read what they overwrite."""

_BY_ELEMENT = _operators("scatter_ scatter_add_ scatter_reduce_ put_")
_ADDING = _operators("index_add_ scatter_add_ embedding_renorm_")

SCATTERS = _BY_ELEMENT | _ADDING | _operators("index_put_ _index_put_impl_ index_copy_ index_fill_ index_reduce_")
"""Operators in place that write of their first operand no more than indices name."""

_MOVES_NOTHING = _operators("empty empty_like empty_strided new_empty new_empty_strided _assert_tensor_metadata")


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
        formula = flop_counter.flop_registry.get(packet) or FORMULAS.get(qualified_name(func))
        flops = 0
        if formula:
            dtype = next(leaf.dtype for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
            flops = int(formula(*args, **kwargs, out_val=result)) * _PACKED.get(dtype, 4 if dtype.is_complex else 1)
            if flops > self._most:
                self._most, self.dtype = flops, dtype
        unknown = (str(func),) if not formula and may_contract(func) else ()
        self.cost += Cost(flops, *_traffic(func, packet, args, kwargs, result), unknown)


_PACKED = {torch.float4_e2m1fn_x2: 2}
"""Of dtypes of which one element holds several numbers: how many."""


def qualified_name(operator: Any) -> str:
    """The name of an operator without its overload, such as `aten::mm`."""
    packet = operator.overloadpacket if isinstance(operator, OpOverload) else operator
    return getattr(packet, "_qualified_op_name", f"{operator.namespace}::{operator}")


@cache
def may_contract(operator: Any) -> bool:
    """Whether an operator may do what counts as FLOPs, as far as its tags and its name tell.

    Whatever is not known to multiply no matrices may do so: operators that are not PyTorch's own, those that take
    functions, and those of which a later PyTorch brings more.
    """
    if not isinstance(operator, OpOverload) or operator.namespace not in _OWN:
        return True
    base = _AROUND.sub("", operator.overloadpacket.__name__)
    packets = [operator.overloadpacket, *([getattr(aten, base)] if hasattr(aten, base) else [])]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    if any(one.is_view or {torch.Tag.pointwise, torch.Tag.reduction} & set(one.tags) for one in overloads):
        return False
    return base not in _WORDS and not _WORDS.issuperset(base.split("_"))


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
    written = sum(tensor_bytes(tensor) for tensor in changed)
    if packet in BAGS | SCATTERS:
        given = arguments_of(func, args, kwargs)
        rows = sizes[id(args[0])] = min(sizes[id(args[0])], _named(packet, given, args[0]))
        if packet in SCATTERS:
            written = rows
            if not (packet in _ADDING or given.get("accumulate") or "reduce" in given):
                sizes[id(args[0])] = 0
    if packet in OVERWRITES:
        sizes[id(args[0])] = 0
    if qualified_name(func) in _GROUPED and args[0].dim() < args[1].dim():
        # Each row meets one of the matrices: at most as many are read as there are rows.
        groups = args[1].shape[0]
        sizes[id(args[1])] = sizes[id(args[1])] * min(args[0].shape[0], groups) // groups
    return sum(sizes.values()), fresh + written


def _named(packet: Any, given: Mapping[Any, Any], table: torch.Tensor) -> int:
    """Bytes of a tensor that a call names by its indices."""
    index = given.get("indices", given.get("index"))
    if packet in _BY_ELEMENT:
        return index.numel() * table.element_size()
    if isinstance(index, torch.Tensor):
        index = [*[None] * (given.get("dim", 0) % max(table.dim(), 1)), index]
    indices = [one for one in index if one is not None]
    if any(one.dtype in (torch.bool, torch.uint8) for one in indices):
        return tensor_bytes(table)
    free = [size for size, one in zip_longest(table.shape, index) if one is None]
    return math.prod((*torch.broadcast_shapes(*(one.shape for one in indices)), *free)) * table.element_size()


def _changed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The operands that a call writes, by the operator's schema."""
    if isinstance(func, HigherOrderOperator):
        return []
    given = arguments_of(func, args, kwargs)
    written = [each for each in func._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    leaves = tree_leaves([given.get(argument.name) for argument in written])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def tensor_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory that the elements of a strided tensor lie in; an expanded dimension takes one element."""
    tensor = plain(tensor)
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return math.prod(sizes) * tensor.element_size() if tensor.numel() else 0


def storage_of(tensor: torch.Tensor) -> int:
    """What tensors over the same memory have in common, as long as one of them lives."""
    return plain(tensor).untyped_storage()._cdata


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The strided tensor of all that `vmap` wrapped up in this one; itself outside of `vmap`."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    if tensor.layout != torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} has no bytes that can be told from its shape.")
    return tensor
