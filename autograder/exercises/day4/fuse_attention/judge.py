"""What a right fusion is: the same values, one operator in the place of each block, and nothing else touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.attention import MISTAKES, fused, mixture, named, readings, written_cases
from autograder.exercises.composed import once_a_case
from autograder.exercises.day4.blocks import SHAPE, block, build, inputs_of, transformer
from autograder.exercises.day4.fuse_attention.visible import fused_calls
from autograder.exercises.graph_comparison import (
    COMMON,
    Calls,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    unusable,
)
from fxopt_core.graphs import is_operation, operation_name

aten = torch.ops.aten

MISCONCEPTIONS = COMMON | {
    "lost the mask": (
        "Your fused operator gets no mask, so tokens that were hidden are seen again. What was added to the scores "
        "belongs into `attn_mask`."
    ),
    "took the mask for causal": (
        "You set `is_causal=True`. That hides what comes later in the text, and the mask of the graph hides something "
        "else."
    ),
    "forgot the scale": (
        "You did not hand on the scale of the graph. Without `scale=` the fused operator takes one over the square "
        "root of the head size, and the graph may have another number."
    ),
    "scaled where there was no scale": (
        "The scores were not scaled at all, but the fused operator scales unless you tell it otherwise: hand it "
        "`scale=1.0`."
    ),
    "scaled twice": (
        "The queries are scaled already, and the fused operator scales once more. What happens before the first "
        "product stays as it is: hand over `scale=1.0`."
    ),
    "inverted the scale": (
        "The scores are *divided* by the number in the graph, and you multiply by it: the scale is one over it."
    ),
    "one of several factors": (
        "The scores are multiplied or divided several times, and only one of the numbers reaches your scale. Multiply "
        "them all."
    ),
    "lost one of the masks": (
        "Two masks are added to the scores, and only one of them reaches your fused operator. Add them up, or leave "
        "the block as it is."
    ),
    "scaled the scores without the mask": (
        "Here the mask is added first, and then scores *and* mask are multiplied. The fused operator scales the scores "
        "alone and adds the mask afterwards. Scale the mask, too, or leave the block as it is."
    ),
    "overlooked alpha": (
        "The mask is added with a factor, `add(scores, mask, alpha=…)`, and your fused operator gets the mask without "
        "it. Look at `kwargs`, too."
    ),
    "took ones for a mask": (
        "A mask of `bool` is added to the scores here, as zeros and ones. The fused operator reads such a mask in "
        "another way: it hides what is `False`. Leave the block as it is, or cast the mask."
    ),
    "lost what follows the softmax": (
        "Something is multiplied or added between the softmax and the values, and in your graph it is gone. The fused "
        "operator has no place for it: leave the block as it is."
    ),
    "key not turned back": (
        "Your fused operator gets the key as the first product reads it, transposed. It wants (…, keys, width): "
        "transpose the last two dimensions back."
    ),
    "swapped the operands": "Query, key and value reach the fused operator in the wrong places.",
    "softmax over another dimension": (
        "You fused a softmax that does not run over the keys (its `dim` is not the last dimension). The fused operator "
        "always runs over the keys."
    ),
    "fused what another reads": (
        "You fused a block of which somebody else reads the weights, or a step on the way. They have to be computed "
        "anyway, so the fused operator comes on top: leave such a block alone."
    ),
    "no attention there": "You fused what is not attention.",
    "fused too much": "You fused a block that must stay as it is.",
    "not all fused": (
        "A block that can be fused is still written out. Steps that change nothing, such as a cast to the dtype that "
        "is there already, need not stop you."
    ),
    "does not run": (
        "The graph that you return does not run, though the original did. The fused operator takes less than the steps "
        "that it replaces: a mask, for instance, must not be larger than the scores."
    ),
    "left the old steps": (
        "The fused operator is there, but steps of the old block are still in the graph, and nobody reads them. "
        "`eliminate_dead_code` keeps every dropout, even one that is off: erase the old steps yourself, from the "
        "output upwards."
    ),
    "something else": "The rewritten graph computes something else than the original.",
}

UNNAMED = ("something else", "fused too much")
"""Say what is wrong, and name no mistake."""

FIXED = """
== several factors
s = div(mul(div(matmul(q, T(k)), 2.5), 1.4), -0.8)
return matmul(softmax(add(s, m), -1), v)

== a factor below zero, a factor of zero
a = matmul(softmax(mul(matmul(q, T(k)), -0.6), -1), v)
return a, matmul(softmax(add(mul(matmul(q, T(k)), 0), m), -1), v)

== a whole number as a divisor
return matmul(softmax(div(matmul(q, T(k)), 3), -1), v)

== the mask first, then the scores
return matmul(softmax(add(m, mul(matmul(q, T(k)), 0.9)), -1), v)

== masks of other shapes
a = matmul(softmax(add(matmul(q, T(k)), m2), -1), v)
return a, matmul(softmax(add(matmul(q, T(k)), m4), -1), v)

== the last dimension by its number
a = matmul(softmax(mul(matmul(q, T(k)), 0.3), 3), v)
return a, bmm(softmax(mul(bmm(e, T(e)), 0.8), 2), e)

== an idle dropout and idle casts
s = to(mul(matmul(q, T(k)), 0.7), torch.float32)
return matmul(to(dropout(softmax(add(s, m), -1), 0.4, False), torch.float32), v)

== values that come after the softmax
w = softmax(mul(matmul(q, T(k)), 0.7), -1)
return matmul(w, unary("sin", v))

== a key that is turned by another operator
t = aten.permute.default(k, [0, 1, 3, 2])
return matmul(softmax(mul(matmul(q, t), 0.2), -1), v)

== a key that comes turned
return matmul(softmax(mul(matmul(q, t), 0.2), -1), v)

== a key that another transpose turned
return matmul(softmax(mul(matmul(q, aten.transpose.int(k, 1, 2)), 0.2), -1), v)

== as many keys as the head is wide
return matmul(softmax(mul(matmul(q, T(k)), 1.2), -1), v)

== fewer queries than keys, wider values
return matmul(softmax(mul(matmul(q, T(k)), 0.9), -1), v)

== one query, one key
return matmul(softmax(matmul(q, T(k)), -1), v)

== equal blocks
a = matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), v)
return a, matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), v)

== a product of two blocks
a = matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), w)
b = matmul(softmax(a, -1), v)
c = matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), w)
return b, matmul(softmax(matmul(softmax(add(c, m), -1), w), -1), v), matmul(softmax(matmul(b, T(k)), -1), v)

== blocks of different scales
a = matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), v)
b = matmul(softmax(div(matmul(a, T(k)), 0.4), -1), v)
return matmul(softmax(add(matmul(b, T(k)), m), -1), a)

== a mask from a product
b = aten.unsqueeze.default(bmm(e, T(e)), 1)
return matmul(softmax(add(mul(matmul(q, T(k)), 0.6), b), -1), v)

== queries that are scaled and shared
h = mul(q, 0.6)
return matmul(softmax(matmul(h, T(k)), -1), v), h

== double precision
return matmul(softmax(add(mul(matmul(q, T(k)), 0.6), m), -1), v)

== two masks
s = mul(matmul(q, T(k)), 0.6)
return matmul(softmax(add(add(s, m), m4), -1), v)

== the mask before the scale
return matmul(softmax(mul(add(matmul(q, T(k)), m4), 0.3), -1), v)

== a mask with a factor
return matmul(softmax(add(matmul(q, T(k)), m4, alpha=3), -1), v)

== a mask of ones and zeros
return matmul(softmax(add(matmul(q, T(k)), b), -1), v)

== a factor after the softmax
return matmul(mul(softmax(matmul(q, T(k)), -1), 3.0), v)

== a bias after the softmax
return matmul(add(softmax(mul(matmul(q, T(k)), 0.4), -1), m), v)

== a tensor as a scale
return matmul(softmax(mul(matmul(q, T(k)), f), -1), v), matmul(softmax(div(matmul(q, T(k)), f), -1), v)

== a scale for each key
return matmul(softmax(mul(matmul(q, T(k)), g), -1), v)

== a mask of one dimension
return matmul(softmax(add(matmul(q, T(k)), m1), -1), v)

== a number as a mask
return matmul(softmax(add(matmul(q, T(k)), 2.0), -1), v)

== a mask of double precision
return matmul(softmax(add(matmul(q, T(k)), d), -1), aten.to.dtype(v, torch.float64))

== a mask of more dimensions
return matmul(softmax(add(bmm(e, T(e)), m), -1), e)

== a mask that is larger than the scores
return matmul(softmax(add(matmul(q, T(k)), m), -1), v)

== scores added to themselves
s = matmul(q, T(k))
return matmul(softmax(add(s, s), -1), v)

== a cast that rounds
s = to(to(matmul(q, T(k)), torch.bfloat16), torch.float32)
return matmul(softmax(s, -1), v)

== a softmax that casts
return matmul(to(softmax(matmul(q, T(k)), -1, torch.float64), torch.float32), v)

== a softmax that casts for its values
return matmul(softmax(mul(matmul(q, T(k)), 0.4), -1, torch.float64), d)

== the weights as values
w = softmax(mul(matmul(q, T(k)), 0.5), -1)
return matmul(w, w)

== a dropout that is on
return matmul(dropout(softmax(matmul(q, T(k)), -1), 0.5, True), v)

== the dropped weights are an output, too
w = dropout(softmax(mul(matmul(q, T(k)), 0.5), -1), 0.1, False)
return matmul(w, v), w

== the weights are read past the dropout
w = softmax(mul(matmul(q, T(k)), 0.5), -1)
return matmul(dropout(w, 0.1, False), v), aten.sum.default(w)

== the scores are an output, too
s = matmul(q, T(k))
return matmul(softmax(mul(s, 0.5), -1), v), s

== the masked scores are read, too
s = add(matmul(q, T(k)), m)
return matmul(softmax(s, -1), v), aten.amax.default(s, [-1])

== weights that meet values twice
w = softmax(mul(matmul(q, T(k)), 0.5), -1)
return matmul(w, v), matmul(w, q)

== over the queries, as many as keys
return matmul(softmax(mul(matmul(q, T(k)), 0.5), -2), v), matmul(softmax(matmul(k, T(q)), 2), v)

== look-alikes around a block
h = matmul(unary("relu", matmul(q, T(k))), v)
h = matmul(softmax(mul(matmul(h, T(k)), 0.3), -1), v)
g = matmul(softmax(aten.linear.default(h, l), -1), l)
return aten.log_softmax.int(matmul(g, T(k)), -1), softmax(matmul(softmax(g, -1), T(v)), -1)

== a draw beside it
h = dropout(q, 0.5, True)
return matmul(softmax(mul(matmul(h, T(k)), 0.3), -1), v), aten.rand_like.default(v)

== nothing to fuse
return unary("sin", q)
"""
"""Name and lines of a case for each class, the same for every seed."""

DOUBLE = {key: [SHAPE, "float64"] for key in "qkv"} | {"m": [(2, 1, 5, 5), "float64"]}

MORE: dict[str, dict[str, Any]] = {
    "masks of other shapes": {"inputs": {"m2": (5, 5), "m4": (2, 3, 1, 5)}},
    "the last dimension by its number": {"inputs": {"e": (2, 5, 4)}},
    "a key that comes turned": {"inputs": {"t": (2, 3, 4, 5)}},
    "a key that another transpose turned": {"inputs": {"q": (2, 3, 5, 3), "k": (2, 3, 3, 3), "v": (2, 3, 3, 4)}},
    "as many keys as the head is wide": {"inputs": dict.fromkeys("qkv", (2, 3, 4, 4))},
    "fewer queries than keys, wider values": {"inputs": {"q": (2, 3, 2, 4), "v": (2, 3, 5, 7)}},
    "one query, one key": {"inputs": dict.fromkeys("qkv", (1, 1, 1, 4))},
    "a product of two blocks": {"inputs": {"w": (2, 3, 5, 5)}},
    "a mask from a product": {"inputs": {"e": (2, 5, 4)}},
    "double precision": {"inputs": DOUBLE},
    "two masks": {"inputs": {"m4": (2, 3, 1, 5)}},
    "the mask before the scale": {"inputs": {"m4": (2, 3, 1, 5)}},
    "a mask with a factor": {"inputs": {"m4": (2, 3, 1, 5)}},
    "a mask of ones and zeros": {"inputs": {"b": [(2, 1, 5, 5), "bool"]}},
    "a tensor as a scale": {"inputs": {"f": ()}},
    "a scale for each key": {"inputs": {"g": (5,)}},
    "a mask of one dimension": {"inputs": {"m1": (5,)}},
    "a mask of double precision": {"inputs": {"d": [(5, 5), "float64"]}},
    "a softmax that casts for its values": {"inputs": {"d": [SHAPE, "float64"]}},
    "a mask of more dimensions": {"inputs": {"e": (3, 5, 4), "m": (2, 1, 5, 5)}},
    "a mask that is larger than the scores": {"inputs": {"q": (1, 3, 5, 4), "k": (1, 3, 5, 4)}},
    "the weights as values": {"inputs": {}},
    "over the queries, as many as keys": {"inputs": {}},
    "look-alikes around a block": {"inputs": {"l": (4, 4)}},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """Other numbers and sizes of the same kinds, a case for each class, and blocks among look-alikes."""

    def seed() -> int:
        return random.randrange(2**31)

    def number() -> float:
        return round(random.uniform(0.2, 1.3), 3)

    return [
        block("hidden times", number=number(), length=random.randint(5, 8), seed=seed()),
        block("hidden divided", scale="divided", number=number(), layers=2, seed=seed()),
        block("hidden plain", scale="", masked=random.choice([True, False]), seed=seed()),
        block("hidden query", scale="query", number=number(), seed=seed()),
        block("hidden shared", shared="weights", scale="divided", seed=seed()),
        transformer("hidden gpt2", "gpt2", layers=2, heads=4, seed=seed()),
        *written_cases(FIXED, MORE),
        *(mixture(random, f"hidden mixture {i}") for i in range(4)),
    ]


@once_a_case
def known(case: Case) -> tuple[fx.GraphModule, Calls, dict[str, Any], Counter[str]]:
    """The case's graph, how it is called, what a caller sees of it, and which operations nobody reads."""
    graph_module = build(case)
    trained = [value.clone() for value in inputs_of(case, 13)] if case.parameters["kind"] == "written" else None
    calls = Calls([list(inputs_of(case, 11)), list(inputs_of(case, 12))], trained)
    return graph_module, calls, own_behaviour(graph_module, calls), unread(graph_module)


@once_a_case
def mistaken(case: Case) -> dict[str, dict[str, Any]]:
    """What a caller would see in the first call under each mistake that can be made here."""
    first = Calls(known(case)[1].inputs[:1])
    can = [name for name, (concerns, _) in MISTAKES.items() if any(map(concerns, readings(case)))]
    return {name: own_behaviour(fused(case, name), first) for name in can}


def unread(graph_module: fx.GraphModule) -> Counter[str]:
    """Operations whose values lead nowhere, and that do nothing else, by name. A dropout that is off does nothing."""
    needed: set[fx.Node] = set()
    nodes = list(all_nodes(graph_module))
    for node in reversed(nodes):
        idle = node.target is aten.dropout.default and not (node.args[2] if len(node.args) > 2 else True)
        acts = node.op == "output" or (node.is_impure() and not idle)
        if acts or any(user in needed for user in node.users):
            needed.add(node)
    return Counter(operation_name(node) for node in nodes if is_operation(node) and node not in needed)


def softmaxes(graph_module: fx.GraphModule) -> int:
    """How many softmaxes are in a graph."""
    return sum("softmax" in operation_name(node) for node in all_nodes(graph_module) if is_operation(node))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What the rewritten graph computes, then what was fused that must not be, then how much was."""
    if problem := unusable(evidence):
        yield problem
        return
    original, calls, wanted, dead = known(case)
    theirs, read = decode(evidence.graphs["graph"]), readings(case)
    found, must = len(fused_calls(theirs)), sum(one.refused == "" for one in read)
    may = sum(one.refused is None for one in read)
    size, tolerance = len(original.graph.nodes), {"relative": 1e-3, "absolute": 1e-4}
    said = f"({found} fused, {must} to fuse)"
    seen = behaviour(theirs, calls)
    different = first_difference(wanted, seen, **tolerance)
    reasons = {one.refused for one in read if one.refused}
    if found > must + may and not reasons:
        yield "no attention there", said
        return
    if different:
        fits = _fits(case, seen, tolerance)
        if different.kind == "does not run" and not fits:
            yield "does not run", f"({different}; {said[1:]}"
            return
        yield Deviation("something else", fits, f"({different}; {said[1:]}", size)
        return
    if case.parameters["kind"] == "block":  # these have every mistake that could be taken for another; it takes time
        others = {named(name) for name in mistaken(case)} - set(_fits(case, seen, tolerance))
        yield Agreement("something else", tuple(sorted(others)))
    if changed := changed_modules(original, theirs):
        yield "changed the model", f"({changed})"
        return
    left = unread(theirs) - dead
    if found and left:
        yield "left the old steps", f"({', '.join(sorted(left.elements()))})"
        return
    if found > must + may or found + softmaxes(theirs) > softmaxes(original):
        yield (next(iter(reasons)) if len(reasons) == 1 else "fused too much"), said
    elif found < must:
        yield "not all fused", said
    elif not evidence.values["fresh"]:
        yield "forgot recompile", ""
    elif "again" not in evidence.graphs or operations(decode(evidence.graphs["again"])) != operations(theirs):
        yield "not idempotent", ""


def _fits(case: Case, seen: dict[str, Any], tolerance: dict[str, float]) -> tuple[str, ...]:
    """The mistakes that would have shown just what was seen in the first call."""
    first = seen | {"calls": seen["calls"][:1], "gradients": {}}
    others = mistaken(case).items()
    return tuple(sorted({named(name) for name, other in others if not first_difference(other, first, **tolerance)}))
