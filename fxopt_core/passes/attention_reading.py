"""Attention that is written out, read from its softmax to the two products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx

from fxopt_core.graphs.arguments import arguments_of
from fxopt_core.graphs.examples import example_of
from fxopt_core.graphs.match_legality import is_metadata_assertion
from fxopt_core.graphs.matching import GraphIndex, Match, Miss
from fxopt_core.graphs.operations import Operations
from fxopt_core.graphs.patterns import function_key
from fxopt_core.graphs.walks import inputs_of
from fxopt_core.passes.pattern_pass import region

PRODUCTS = ("matmul", "bmm", "baddbmm", "einsum")
SCALINGS = ("mul", "div")
MASKS = ("add", "sub", "masked_fill", "where")
SAME = ("to", "_to_copy", "type_as", "float", "double", "contiguous", "clone", "alias", "dropout")
"""What may stand between and keeps the values: casts to the dtype that they have, and dropout that is off.
(Dropout that is on draws random numbers, and is refused for that.)"""

_COMMUTATIVE = ("add", "mul")
_SOFTMAX = ("softmax", "_softmax")
_OPERATIONS = Operations((*PRODUCTS, *SCALINGS, *MASKS, *SAME, *_SOFTMAX), in_place=(*SCALINGS, *MASKS[:3]))

NEARBY = 4
"""How many unknown operations may lie between softmax and product for the place to be worth a word."""


def _operation(node: Any) -> str | None:
    return _OPERATIONS.name_of(node) if isinstance(node, fx.Node) else None


def _arguments(node: fx.Node) -> dict[Any, Any]:
    return arguments_of(function_key(node, None), node.args, node.kwargs)


class Product(NamedTuple):
    """A product of two tensors, as `einsum` would write it.

    Attributes:
        factors: the two tensors.
        letters: of the dimensions of the two and of the result.
        scale: by what it is multiplied.
        added: what is added to it.
    """

    factors: tuple[fx.Node, fx.Node]
    letters: tuple[str, str, str]
    scale: float = 1.0
    added: fx.Node | None = None


def product_at(node: Any) -> Product | None:
    """The product that a node computes; `None` if it computes none, or one of other than two tensors."""
    name = _operation(node)
    if name not in PRODUCTS:
        return None
    given = _arguments(node)
    if name == "einsum":
        equation, *factors = node.args
        factors = [one for each in factors for one in (each if isinstance(each, (list, tuple)) else (each,))]
        return _einsum(str(equation).replace(" ", ""), factors)
    added, scale = None, 1.0
    values = list(given.values())
    if name == "baddbmm":
        added, scale = values.pop(0), given.get("alpha", 1)
        if given.get("beta", 1) != 1 or type(scale) not in (int, float):
            return None
    first, second = values[:2]
    shapes = [example.dim() for each in (first, second) if (example := _example(each)) is not None]
    if len(shapes) < 2 or shapes[0] != shapes[1] or shapes[0] < 2 or "out_dtype" in given:
        return None
    batch = "ABCDEFGHIJKL"[: shapes[0] - 2]
    return Product((first, second), (f"{batch}qd", f"{batch}dk", f"{batch}qk"), float(scale), added)


def _einsum(equation: str, factors: list[Any]) -> Product | None:
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    examples = [_example(each) for each in factors]
    if not arrow or len(terms) != 2 or len(examples) != 2 or any(example is None for example in examples):
        return None
    # What dots stand for is the same in all terms, or else they are broadcast.
    dots = {e.dim() - len(term) + 3 for term, e in zip(terms, examples, strict=True) if "..." in term and e is not None}
    if len(dots) > 1:
        return None
    batch = "".join(letter for letter in map(chr, range(0x391, 0x3A1)))[: next(iter(dots), 0)]
    first, second, result = (term.replace("...", batch) for term in (*terms, result))
    if any(len(set(term)) < len(term) for term in (first, second, result)):
        return None
    return Product((factors[0], factors[1]), (first, second, result))


def _example(node: Any) -> torch.Tensor | None:
    return example_of(node) if isinstance(node, fx.Node) else None


def _order(letters: str, wanted: str) -> tuple[int, ...]:
    return tuple(map(letters.index, wanted))


@dataclass
class Attention:
    """Attention as it was found.

    Attributes:
        softmax: the call.
        dimension: over which it runs.
        computed_in: the dtype that it is told to compute in, if it is.
        nodes: everything between the two products, and these.
        operands: query, keys and value, each with its dimensions in the order batch..., positions, features.
        scales: what the scores are multiplied by, one after the other.
        unknown_scale: a scale that is no number.
        mask: what else is done to the scores; `MaskStep` with nodes in the place of inputs.
        order: of the result's dimensions, among batch..., positions, features.
    """

    softmax: fx.Node
    dimension: Any
    computed_in: Any
    nodes: list[fx.Node] = field(default_factory=list)
    operands: list[tuple[fx.Node, tuple[int, ...]]] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    unknown_scale: Any = None
    mask: list[tuple[fx.Node, str, Any, float]] = field(default_factory=list)
    order: tuple[int, ...] = ()

    def shape(self, number: int) -> tuple[Any, ...]:
        """The example shape of query (0), keys (1) or value (2), as batch..., positions, features."""
        node, order = self.operands[number]
        example = example_of(node)
        assert example is not None
        return tuple(example.shape[dimension] for dimension in order)


def find_attention(node: fx.Node, index: GraphIndex) -> Match | Miss | None:
    """The attention whose softmax a node is; why it is none, if it nearly is one."""
    if _operation(node) not in _SOFTMAX:
        return None
    if example_of(node) is None and any(_operation(above) in PRODUCTS for above in _line(node, up=True)):
        return Miss(node, "the shapes of query, keys and values are not known")
    given = _arguments(node)
    dtype = given.get("dtype")
    found = Attention(node, given.get("dim"), dtype if isinstance(dtype, torch.dtype) else None, [node])
    reason = _upwards(found, next(iter(given.values()), None))
    reason = _downwards(found) if reason is None else reason
    if reason is None:
        given = {each: 0 for step in (*found.operands, *found.mask) for each in step if isinstance(each, fx.Node)}
        reason = next((f"{each} is used a second time in the formula" for each in found.nodes if each in given), None)
    if reason is None:
        found.nodes.sort()
        return region(index, found.nodes, inputs_of(found.nodes), found)
    return Miss(node, reason, tuple(found.nodes)) if reason else None


NOTHING = ""
"""The reason of a place that is not worth a word."""


def _upwards(found: Attention, value: Any) -> str | None:
    """Read what the softmax is computed from; why it is no attention, `NOTHING` if it is nowhere near."""
    later = 1.0
    while (product := product_at(value)) is None:
        name = _operation(value)
        source = _source(value, name)
        if source is None:
            line = list(_line(value, up=True))
            if all(product_at(above) is None for above in line):
                return NOTHING
            unknown = next((above for above in line if _operation(above) not in (*MASKS, *SCALINGS, *SAME)), value)
            return f"{unknown} stands between the product of query and keys and the softmax"
        found.nodes.append(value)
        given = _arguments(value)
        operands = list(given.values())
        if (name in ("div", "sub") and operands[0] is not source) or given.get("rounding_mode") is not None:
            return f"{value} changes the scores in a way that is neither mask nor scale"
        if name in MASKS:
            step = _mask(name, source, operands)
            if step is None or given.get("alpha", 1) != 1:
                return f"{value} changes the scores in a way that is neither mask nor scale"
            found.mask.insert(0, (*step, later))
        elif name in SCALINGS:
            scale = operands[1] if operands[0] is source else operands[0]
            if type(scale) not in (int, float) or scale == 0:
                found.unknown_scale = scale
            else:
                found.scales.insert(0, 1 / scale if name == "div" else float(scale))
                later *= found.scales[0]
        value = source
    found.nodes.append(value)
    found.scales.insert(0, product.scale)
    if product.added is not None:
        found.mask.insert(0, (product.added, "add", None, later))
    first, second, scores = product.letters
    if len(scores) < 2:
        return NOTHING
    batch, query, key = scores[:-2], scores[-2], scores[-1]
    turned = key in first
    if turned:
        first, second = second, first
    summed = (set(first) & set(second)) - set(scores)
    if len(summed) != 1 or set(first) != {*batch, query, *summed} or set(second) != {*batch, key, *summed}:
        return f"{value} is no product of queries and keys for each head"
    factors = reversed(product.factors) if turned else product.factors
    wanted = ("".join((*batch, position, *summed)) for position in (query, key))
    found.operands += [
        (node, _order(letters, order)) for node, letters, order in zip(factors, (first, second), wanted, strict=True)
    ]
    return None


def _source(node: Any, name: str | None) -> Any:
    """The scores that a step between the first product and the softmax takes; `None` where it is no such step."""
    if name not in (*MASKS, *SCALINGS, *SAME):
        return None
    operands = list(_arguments(node).values())
    candidates = operands[1:3] if name == "where" else operands[: 2 if name in (*_COMMUTATIVE, "div", "sub") else 1]
    return next((each for each in candidates if isinstance(each, fx.Node) and _reaches_product(each)), None)


def _reaches_product(node: fx.Node) -> bool:
    """Whether known steps lead up to a product."""
    for above in _line(node, up=True, most=4 * NEARBY):
        if product_at(above) is not None:
            return True
        if _operation(above) not in (*MASKS, *SCALINGS, *SAME):
            return False
    return False


def _mask(name: str, source: fx.Node, operands: list[Any]) -> tuple[fx.Node, str, Any] | None:
    """The mask of a step, what is done with it, and what is filled in; `None` where a number is in its place."""
    mask, kind, value = (operands[1] if operands[0] is source else operands[0]), name, None
    if name == "masked_fill":
        kind, value = "fill", operands[2]
    elif name == "where":
        kind, value = ("keep", operands[2]) if operands[1] is source else ("fill", operands[1])
    return (mask, kind, value) if isinstance(mask, fx.Node) else None


def _line(node: Any, *, up: bool, most: int = NEARBY) -> Iterator[fx.Node]:
    """The node, and on from it along first arguments or only users."""
    for _ in range(most):
        if not isinstance(node, fx.Node) or not node.op.startswith("call"):
            return
        yield node
        following = node.all_input_nodes if up else [user for user in node.users if not is_metadata_assertion(user)]
        where = up and _operation(node) == "where" and len(following) > 1
        node = following[1 if where else 0] if following else None


def _downwards(found: Attention) -> str | None:
    """Read what becomes of the weights; why it is no attention, `NOTHING` if it is nowhere near."""
    weights = found.softmax
    while True:
        users = [user for user in weights.users if not is_metadata_assertion(user)]
        last = next((user for user in users if product_at(user) is not None), None)
        if last is not None:
            break
        following = next((user for user in users if _operation(user) in SAME and user.args[:1] == (weights,)), None)
        if following is None:
            near = any(product_at(node) is not None for user in users for node in _line(user, up=False))
            return f"{users[0]} stands between the softmax and the product with the values" if near else NOTHING
        found.nodes.append(following)
        weights = following
    product = product_at(last)
    assert product is not None
    found.nodes.append(last)
    number = product.factors.index(weights) if weights in product.factors else 2
    if number == 2 or product.added is not None or product.scale != 1:
        return f"{last} is no plain product of weights and values"
    given, values, result = product.letters[number], product.letters[1 - number], product.letters[2]
    batch, query, key = given[:-2], given[-2], given[-1]
    features = set(values) - set(given)
    if {*values} != {*batch, key, *features} or len(features) != 1 or {*result} != {*batch, query, *features}:
        return f"{last} does not sum over the keys for each head, or value and weights differ in their batch dimensions"
    found.operands.append((product.factors[1 - number], _order(values, "".join((*batch, key, *features)))))
    found.order = _order("".join((*batch, query, *features)), result)
    return None
