"""Attention written out becomes one fused operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product, starmap
from typing import Any, NamedTuple

import torch
from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import attribute_of, example_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.matching import Match
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import Tolerance

aten = torch.ops.aten


@legality("attention_fusion: shapes are those of attention")
def shapes_fit(match: Match) -> str | None:
    """The fused operator takes equal batch dimensions, and the softmax runs over the keys."""
    query, keys, value = (match.example(name) for name in ("query", "keys", "value"))
    if any(tensor is None for tensor in (query, keys, value)):
        return "the shapes of query, keys and value are not known"
    if not query.dim() == keys.dim() == value.dim() or query.dim() not in (3, 4):
        return f"query, keys and value have {query.dim()}, {keys.dim()} and {value.dim()} dimensions; expected 3 or 4"
    if not query.shape[:-2] == keys.shape[:-2] == value.shape[:-2]:
        return "query, keys and value differ in their batch dimensions"
    if match["dimension"] not in (-1, query.dim() - 1):
        return f"the softmax runs over dimension {match['dimension']}, which is not that of the keys"
    return None


@legality("attention_fusion: single or double precision")
def precision_is_kept(match: Match) -> str | None:
    """In half precision the fused operator rounds elsewhere, by more than the stated tolerance."""
    dtypes = {match.example(name).dtype for name in ("query", "keys", "value")}
    if dtypes not in ({torch.float32}, {torch.float64}):
        return f"query, keys and value are of {', '.join(sorted(map(str, dtypes)))}; expected float32 or float64"
    for name in ("dtype", "upcast", "cast"):
        if name in match.pattern.names and match[name] is not None and {match[name]} != dtypes:
            return f"the softmax is computed in or cast to {match[name]}"
    return None


@legality("attention_fusion: the scale is a number")
def scale_is_a_number(match: Match) -> str | None:
    """The fused operator takes a number that is known now."""
    if "scale" not in match.pattern.names or type(match["scale"]) in (int, float):
        return None
    return f"the scale is {match['scale']}, and no number"


@legality("attention_fusion: the mask adds finite numbers")
def mask_fits(match: Match) -> str | None:
    """A row that is masked with -inf throughout is NaN after a softmax, and 0 after the fused operator."""
    if "mask" not in match.pattern.names:
        return None
    mask, query = match.example("mask"), match.example("query")
    if mask is None or mask.dtype != query.dtype or mask.dim() > query.dim():
        return "the mask is no tensor of the dtype and at most the dimensions of the query"
    scores = (*query.shape[:-1], match.example("keys").shape[-1])
    if any(size not in (1, wanted) for size, wanted in zip(reversed(mask.shape), reversed(scores), strict=False)):
        return f"the mask of shape {tuple(mask.shape)} widens the scores of shape {scores}"
    if not is_finite(match["mask"]):
        return "the mask may hold infinities, and a row of them gives NaN here and 0 in the fused operator"
    return None


_KEEPS_VALUES = frozenset(
    {
        aten.expand.default, aten.view.default, aten.reshape.default, aten.unsqueeze.default, aten.slice.Tensor,
        aten.permute.default, aten.transpose.int, aten.to.dtype, aten.to.device, aten.clone.default, aten.neg.default,
        aten.contiguous.default, aten.squeeze.dim, aten.select.int, aten.alias.default, aten._to_copy.default,
        aten.embedding.default, aten.lift_fresh_copy.default, aten.detach.default, aten.detach_.default,
    }
)  # fmt: skip
_CHOOSES = (aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar, aten.masked_fill.Scalar)
_FILLS = {aten.full.default: 1, aten.scalar_tensor.default: 0}
_ZEROS_AND_ONES = (aten.zeros.default, aten.ones.default, aten.zeros_like.default, aten.ones_like.default)
_SUMS = (aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar)
DEEPEST = 30
"""How many nodes up the values of a mask are followed."""


def is_finite(mask: Any) -> bool:
    """Whether a mask holds finite numbers, for the values that the module's parameters and buffers have now."""
    example = example_of(mask) if isinstance(mask, fx.Node) else None
    return example is not None and largest(mask, DEEPEST) <= torch.finfo(example.dtype).max


def largest(value: Any, depth: int) -> float:
    """A bound of the magnitude of a value's elements; infinity if none is known."""
    if not isinstance(value, fx.Node):
        return abs(value) if isinstance(value, (int, float)) else math.inf
    example = example_of(value)
    if example is not None and example.dtype is torch.bool:
        return 1.0
    if value.op == "get_attr":
        return _largest_element(value)
    if depth == 0 or value.op != "call_function":
        return math.inf
    below = [largest(argument, depth - 1) for argument in value.args[:3] if isinstance(argument, (fx.Node, float, int))]
    if value.target in _ZEROS_AND_ONES:
        return 1.0
    if value.target in _FILLS:
        return largest(value.args[_FILLS[value.target]], depth)
    if value.target in _CHOOSES:
        return max(below)
    if value.target in _SUMS:
        return sum(below) if "alpha" not in value.kwargs else math.inf
    if value.target is aten.mul.Tensor:
        return math.prod(below)
    return below[0] if value.target in _KEEPS_VALUES else math.inf


def _largest_element(node: fx.Node) -> float:
    tensor = attribute_of(node.graph.owning_module, node.target)
    if not isinstance(tensor, torch.Tensor):
        return math.inf
    bound = float(tensor.detach().abs().max()) if tensor.numel() else 0.0
    return math.inf if math.isnan(bound) else bound


class Form(NamedTuple):
    """One way to write attention.

    Attributes:
        scaling: `times`, `divided` or nothing.
        masked: a mask is added to the scores.
        upcast: the scores are cast before the softmax.
        cast: the weights are cast after it: `to` a dtype, `like` the scores or their upcast, or not.
        dropped: there is a dropout, which must be off.
    """

    scaling: str
    masked: bool
    upcast: bool
    cast: str
    dropped: bool

    @property
    def name(self) -> str:
        """What is special about it, in words."""
        parts = [self.scaling, "masked" * self.masked, "upcast" * self.upcast, self.cast and f"cast {self.cast}"]
        return " ".join(["attention", *filter(None, parts), *(["dropout"] if self.dropped else [])])

    @property
    def wildcards(self) -> list[str]:
        """The names of what the pattern leaves open, besides query, keys, value and the softmax's arguments."""
        return [
            *(["scale"] if self.scaling else []),
            *(["mask"] if self.masked else []),
            *(["upcast"] if self.upcast else []),
            *(["cast"] if self.cast == "to" else []),
            *(["probability", "training"] if self.dropped else []),
        ]

    def attend(self, query: Any, keys: Any, value: Any, dimension: Any, dtype: Any, more: dict[str, Any]) -> Any:
        """Attention, written in this way."""
        scores = aten.matmul.default(query, keys)
        if self.scaling:
            scores = (aten.mul if self.scaling == "times" else aten.div).Tensor(scores, more["scale"])
        if self.masked:
            scores = aten.add.Tensor(scores, more["mask"])
        raised = aten.to.dtype(scores, more["upcast"]) if self.upcast else scores
        weights = aten.softmax.int(raised, dimension, dtype)
        if self.cast == "to":
            weights = aten.to.dtype(weights, more["cast"])
        elif self.cast:
            weights = aten.type_as.default(weights, scores if self.cast == "like" else raised)
        if self.dropped:
            weights = aten.dropout.default(weights, more["probability"], more["training"])
        return aten.matmul.default(weights, value)

    def pattern(self) -> Callable[..., Any]:
        """A function whose parameters are the wildcards, as a pattern has to be."""
        parameters = ", ".join(["query", "keys", "value", "dimension", "dtype", *self.wildcards])
        more = ", ".join(f"{name!r}: {name}" for name in self.wildcards)
        # The parameters differ from form to form, which only a function made from text can have.
        spelled: Callable[..., Any] = eval(
            f"lambda {parameters}: attend(query, keys, value, dimension, dtype, {{{more}}})", {"attend": self.attend}
        )
        return spelled


FORMS = tuple(
    form
    for form in starmap(
        Form,
        product(
            ("times", "divided", ""), (True, False), (True, False), ("to", "like", "like upcast", ""), (True, False)
        ),
    )
    if form.upcast or form.cast != "like upcast"
)


def _build(scaling: str) -> Callable[[GraphEditor, Match], fx.Node]:
    def build(editor: GraphEditor, match: Match) -> fx.Node:
        scale = float(match["scale"]) if scaling else 1.0
        before = match.before if match.before is not None else match.anchor
        key = editor.insert(
            "call_function", aten.transpose.int, (match["keys"], -2, -1), like=match.anchor, before=before
        )
        mask = match["mask"] if "mask" in match.pattern.names else None
        fused = editor.insert(
            "call_function",
            aten.scaled_dot_product_attention.default,
            (match["query"], key, match["value"], mask),
            {"scale": 1 / scale if scaling == "divided" else scale},
            like=match.anchor,
            before=before,
        )
        # The fused operator may lay its result out otherwise, which views that follow would not expect.
        return editor.insert(
            "call_function",
            aten.clone.default,
            (fused,),
            {"memory_format": torch.contiguous_format},
            like=match.anchor,
            before=before,
        )

    return build


def _rule(form: Form) -> RewriteRule:
    return RewriteRule(
        form.name,
        form.pattern(),
        build=_build(form.scaling),
        checks=(shapes_fit, precision_is_kept, scale_is_a_number, mask_fits),
        drops_assertions=True,
    )


@register_pass("attention_fusion")
class AttentionFusion(PatternPass):
    """Attention that is written out becomes the fused operator.

        softmax(q @ kt * s + m) @ v    becomes    scaled_dot_product_attention(q, ktᵀ, v, m, scale=s)

    with or without scale (also as a division), mask, casts and dropout that is off, where q, kt and v are of 3 or 4
    dimensions with equal batch dimensions, in single or double precision, the softmax runs over the keys, and the
    mask holds finite numbers: a row masked with -inf throughout would be NaN before and 0 after. Assertions that
    export made about the inner values vanish with them. In training, dropout is left as it is. Keys and values that
    are repeated for grouped heads are taken as they are repeated.

    Exactness: the fused operator (Dao 2022, "FlashAttention") adds up in another order and rescales as it goes; on
    the CPU float32 results differ by a few units in the last place, which later layers widen. Needs example values.
    """

    rules = tuple(map(_rule, FORMS))
    least_met = 4
    tolerance = Tolerance(relative=1e-4, absolute=1e-5)
