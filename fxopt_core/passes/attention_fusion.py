"""Attention written out becomes one fused operator."""

from __future__ import annotations

import math
import operator
from itertools import accumulate

from torch import fx, nn

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import example_of, keep_example
from fxopt_core.graphs.fused_attention import PRECISIONS, FusedAttention, MaskStep, Operand
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.matching import Match
from fxopt_core.graphs.walks import graph_of
from fxopt_core.passes.attention_reading import Attention, find_attention
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import Tolerance

REASONABLE = 1e6
"""Scales up to this, and down to one by it, cannot make scores vanish or overflow on the way."""


@legality("attention_fusion: the softmax runs over the keys")
def softmax_over_the_keys(match: Match) -> str | None:
    """The fused operator has the softmax over the keys, which are the last dimension of the scores."""
    found: Attention = match.data
    if found.dimension not in (-1, len(found.shape(0)) - 1):
        return f"the softmax runs over dimension {found.dimension}, which is not that of the keys"
    return None


@legality("attention_fusion: the scale is a number")
def scale_is_a_number(match: Match) -> str | None:
    """The fused operator takes a number that is known now, and does not notice what overflows on the way to it."""
    found: Attention = match.data
    if found.unknown_scale is not None:
        return f"the scale is {found.unknown_scale}, and no number"
    partial = list(accumulate(found.scales, operator.mul, initial=1.0))
    if not all(1 / REASONABLE <= abs(scale) <= REASONABLE for scale in partial):
        return f"the scores are multiplied by {', '.join(f'{each:g}' for each in found.scales)}; expected 1e-6 to 1e6"
    return None


@legality("attention_fusion: what is filled in is a number")
def filled_with_a_number(match: Match) -> str | None:
    """A mask with other values in each place is no mask that hides."""
    for _, _, value, _ in match.data.mask:
        example = example_of(value) if isinstance(value, fx.Node) else None
        if isinstance(value, fx.Node) and (example is None or example.dim()):
            return f"what stands in the masked places is {value}, and no single number"
    return None


def is_worthwhile(match: Match) -> str | None:
    """The operator is right everywhere, but elsewhere it would never be anything but the formula."""
    found: Attention = match.data
    query, keys, value = map(found.shape, range(3))
    if not 2 <= len(query) <= 4:
        return f"query, keys and value have {len(query)} dimensions; expected 2 to 4"
    if not query[:-2] == keys[:-2] == value[:-2]:
        return "query, keys and value differ in their batch dimensions"
    examples = [example_of(node) for node in (*(node for node, _ in found.operands), *found.nodes)]
    if any(each is None for each in examples):
        return "the shapes and dtypes of what is computed are not known"
    dtypes = {str(each.dtype) for each in examples if each is not None}
    dtypes |= set() if found.computed_in is None else {str(found.computed_in)}
    if len(dtypes) > 1 or not dtypes <= set(map(str, PRECISIONS)):
        return f"it is computed in {' and '.join(sorted(dtypes))}; expected float32 or float64 throughout"
    scores = (*query[:-1], keys[-2])
    for node, *_ in found.mask:
        example = example_of(node)
        shape = None if example is None else tuple(example.shape)
        sizes = zip(reversed(shape or ()), reversed(scores), strict=False)
        if shape is None or len(shape) > len(scores) or any(size not in (1, wanted) for size, wanted in sizes):
            return f"the mask {node} of shape {shape} is not known to fit the scores of shape {scores}"
    return None


def _build(editor: GraphEditor, match: Match) -> fx.Node:
    found: Attention = match.data
    example = example_of(match.anchor)
    inputs = list(match.inputs)
    now = match.values.__getitem__
    written, copies = graph_of(match.nodes, inputs, match.anchor)
    for copied in copies:
        copied.meta = {}
    places = {source: number for number, source in enumerate(inputs)}
    query, key, value = (Operand(places[now(node)], order) for node, order in found.operands)
    mask = [
        MaskStep(
            places[now(node)], kind, Operand(places[now(value)], ()) if isinstance(value, fx.Node) else value, factor
        )
        for node, kind, value, factor in found.mask
    ]
    assert example is not None
    layout = sorted(range(example.dim()), key=lambda dimension: -example.stride()[dimension])
    fused = FusedAttention(
        fx.GraphModule(nn.Module(), written),
        query,
        key,
        value,
        math.prod(found.scales),
        mask,
        found.order,
        tuple(layout),
    )
    name = editor.module(fused, "fused_attention")
    node = editor.insert("call_module", name, tuple(inputs), like=match.anchor, before=match.before)
    return keep_example(node, match.anchor)


@register_pass("attention_fusion")
class AttentionFusion(PatternPass):
    """Attention that is written out becomes one operator.

        softmax(mask(q @ kt * s)) @ v    becomes    fused_attention(q, kt, v, mask)

    with products as `matmul`, `bmm`, `baddbmm` or `einsum`, of 2 to 4 dimensions with equal batch dimensions; scales
    that are numbers, as factors or divisors; masks that are added, filled in (`masked_fill`) or chosen (`where`), one
    or several; casts that change nothing; and dropout that is off. Everything is in single or double precision, and
    the softmax runs over the keys. Assertions that export made about the inner values vanish with them. Keys and
    values that are repeated for grouped heads are taken as they are repeated.

    The operator (`graphs.fused_attention`) holds the formula as it was written, and calls PyTorch's fused kernel where
    that surely gives the same: NaN, infinities, overflow, rows that a mask hides throughout, derivatives of every
    order, transforms, autocast and few scores get the formula, so training gains nothing. Behind `torch.compile`
    Inductor gets the formula, and fuses it in its own way.

    Exactness: the fused kernel (Dao 2022, "FlashAttention") adds up in another order and rescales as it goes; on the
    CPU float32 results differ by a few units in the last place, which later layers widen. Needs example values.
    """

    rules = (
        RewriteRule(
            "attention",
            find=find_attention,
            build=_build,
            checks=(softmax_over_the_keys, scale_is_a_number, filled_with_a_number, is_worthwhile),
            drops_assertions=True,
            same_sharing=True,  # a product of two tensors is new, before and after
        ),
    )
    tolerance = Tolerance(relative=1e-4, absolute=1e-5)
