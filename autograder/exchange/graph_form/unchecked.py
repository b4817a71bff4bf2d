"""Operators that stay off the allow-list although they only compute: a graph could crash the process, or worse.

Most kernels of PyTorch check their arguments. These do not: some trust indices and shapes that another operator is
supposed to have given them (`max_pool2d_with_indices_backward` writes wherever its indices say), some are asked to
trust (`segment_reduce(unsafe=True)`), some divide by a size without a look at it. Where whole families are made for
PyTorch's own use, a rule keeps them out; the others stand in a table. `tests/attacks/operator_fuzzer.py` found them,
and `make torture` looks for more. That a graph runs in a process of its own is the first wall; this is the second.
"""

from __future__ import annotations

import re

import torch

CAPTURED = frozenset(
    "_adaptive_avg_pool2d _adaptive_avg_pool3d _add_relu _addmm_activation _aminmax _assert_async _assert_scalar "
    "_assert_tensor_metadata _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long "
    "_cast_Short _cdist_forward _conj _conj_copy _conj_physical _convolution "
    "_euclidean_dist _foreach_add _functional_assert_async _functional_assert_scalar "
    "_functional_sym_constrain_range _functional_sym_constrain_range_for_size _grouped_mm _index_put_impl _int_mm "
    "_is_all_true _is_any_true _linalg_check_errors _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex "
    "_linalg_svd _local_scalar_dense _log_softmax _logcumsumexp _lu_with_info _masked_softmax "
    "_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training "
    "_native_multi_head_attention _neg_view _neg_view_copy _pdist_forward _prelu_kernel _reshape_copy _safe_softmax "
    "_scaled_dot_product_attention_math _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu _shape_as_tensor _softmax _to_copy _transformer_encoder_layer_fwd "
    "_trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_view "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
    # Of the gradients, those of pointwise functions and of layers, whose operands only have to fit each other.
    "_log_softmax_backward_data _softmax_backward_data convolution_backward elu_backward embedding_dense_backward "
    "gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward "
    "log_sigmoid_backward mish_backward native_batch_norm_backward native_dropout_backward "
    "native_group_norm_backward native_layer_norm_backward sigmoid_backward silu_backward softplus_backward "
    "tanh_backward threshold_backward".split()
)
"""ATen's private operators and gradients that captures and decompositions write into graphs, and that check their
arguments."""

PRIVATE = (r"_(?!_).*", "private: made for PyTorch's own use, and called only with what PyTorch has checked before")

RULES = (
    (r".*_backward.*", "computes a gradient: it trusts the indices and sizes that its forward pass gave"),
    (r".*(_foreach_|_fused_|_amp_).*", "made for optimisers, on lists of tensors that they have checked"),
    (r".*_batch_norm_(stats|elemt|gather_stats|reduce|update_stats).*|batch_norm_(stats|elemt|gather_stats.*|update_stats)",
     "a part of synchronised batch normalisation, which checks what it hands over"),
)  # fmt: skip
"""Patterns of whole names, and why what fits them stays out (unless it is in `CAPTURED`); `PRIVATE` for ATen only."""

CRASHING: dict[str, str] = {
    "segment_reduce": "reads past its data where `unsafe=True` tells it not to look at the lengths",
    "lu_unpack": "writes where its pivots say, and corrupts the heap",
    "eigvals": "LAPACK reaches past its work space where a matrix holds a NaN",
    "linalg_eigvals": "LAPACK reaches past its work space where a matrix holds a NaN",
    "embedding_bag": "reads past its offsets where they have several dimensions",
    "_embedding_bag": "reads past its offsets where they have several dimensions",
    "_embedding_bag_forward_only": "reads past its offsets where they have several dimensions",
    "ldl_solve": "frees memory twice where the pivots are not those of a factorisation",
    "linalg_ldl_solve": "frees memory twice where the pivots are not those of a factorisation",
    "range": "divides by its step as an integer, in which a half is zero (`arange` does not)",
    "embedding_dense_backward": "writes past its result where fewer gradients come than indices",
}
"""Names of operators in all their forms (function, method, ATen operator), and what the fuzzer saw them do."""

OUT_KEPT = frozenset({("add", "out")})
"""Overloads that write into a tensor which they are handed and that stay: programs of the capstone are about them."""

CHECKED = frozenset({"torch.nn.functional.embedding_bag", "builtins.range"})
"""Functions with the name of one that crashes, and that do not: they look at their arguments first, or are Python's."""

KEPT: dict[str, str] = {
    "_log_softmax_backward_data": "gradients of classifiers call it; it trusts the shape of what was saved",
    "lstm": "captured graphs of recurrent models call it; it trusts the number of its weights",
    "native_batch_norm": "captured graphs of convolutional models call it; it trusts the length of its weights",
    "native_batch_norm_backward": "gradients of convolutional models call it; it trusts the length of what was saved",
    "_native_batch_norm_legit": "core ATen writes instance normalisation with it; it trusts the length of weights",
    "_native_batch_norm_legit_functional": "captured graphs of models in training call it; as `native_batch_norm`",
    "_native_batch_norm_legit_no_training": "exported convolutional models call it; as `native_batch_norm`",
}
"""Operators that can crash, too, and without which no ordinary graph could travel: only their process holds them."""


def _by_rule(name: str, rules: tuple[tuple[str, str], ...]) -> str | None:
    return next((reason for pattern, reason in rules if re.fullmatch(pattern, name)), None)


def why_left_out(name: str) -> str | None:
    """Why no graph may call what is called `name` (without namespace and overload); `None` where it may.

    >>> why_left_out("add") is None
    True
    """
    # `add_` shares its kernel with `add`, but dunder methods such as `__and__` are what they look like.
    bare = name if name.endswith("__") else name.removesuffix("_")
    if name in CRASHING or bare in CRASHING:
        return CRASHING.get(name) or CRASHING[bare]
    return None if bare in CAPTURED else _by_rule(name, RULES)


def why_operator_left_out(name: str, overload: str) -> str | None:
    """Why no graph may call the ATen operator `name` in this overload; `None` where it may."""
    if reason := why_left_out(name):
        return reason
    if name.removesuffix("_") not in CAPTURED and (reason := _by_rule(name, (PRIVATE,))):
        return reason
    if (name, overload) in OUT_KEPT:
        return None
    schema = torch._C._get_schema(f"aten::{name}", overload)
    if any(
        argument.kwarg_only and argument.alias_info and argument.alias_info.is_write for argument in schema.arguments
    ):
        return "writes its result into a tensor that it is handed, whatever size that has"
    return None
