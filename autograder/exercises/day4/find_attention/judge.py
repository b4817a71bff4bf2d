"""Which blocks there are: found by the judge from data flow, in a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.attention import FINDING, Triple, accepted, mixture, named, triples, written_cases
from autograder.exercises.composed import once_a_case
from autograder.exercises.day4.blocks import SHAPE, block, build, transformer

MISCONCEPTIONS = {
    "no list of triples": (
        "`find_attention` must return a list with a triple of nodes for each block: the product of query and key, the "
        "softmax, the product with the values."
    ),
    "counted softmax as attention": (
        "You found attention where there is only a softmax: no product of queries and keys leads to it. (A gate's "
        "weights come from a linear layer, a classifier's from its head.) Look at both sides of the softmax."
    ),
    "values never mixed": (
        "You found attention where the weights never meet any values: no product of matrices reads them afterwards."
    ),
    "two products are no attention": (
        "You found attention where there is no softmax between the two products. ReLU or a logarithm in its place "
        "makes no weights that add up to one."
    ),
    "scores directly before the softmax only": (
        "You miss blocks: between the first product and the softmax there may be a scale, a mask that is added, or a "
        "cast. Walk up as long as a step only changes the values of the scores."
    ),
    "values directly after the softmax only": (
        "You miss blocks: between the softmax and the second product there may be a cast, or a dropout that is off "
        "but still there. Walk down through them."
    ),
    "one operator only": (
        "You miss blocks that multiply with the other operator: matrices in batches of three dimensions go through "
        "`bmm`."
    ),
    "sole user expected": (
        "You miss blocks whose weights somebody else reads, too, for instance because the model returns them. Only one "
        "of the users has to be the product with the values."
    ),
    "stopped at the first": "You found the first block only. A model has one for each layer.",
    "other models overlooked": (
        "You found blocks in some models and none in this one. Do you go by a name that only some models use?"
    ),
    "one side of a sum only": (
        "You miss blocks in which the scores are the second operand of a sum or a product: `mask + scores` is as good "
        "as `scores + mask`. Try both operands."
    ),
    "never turns back": (
        "You miss blocks in which a sum or a product has two operands from which one can go on: you follow one of "
        "them, it leads to no product of matrices, and you give up. A mask may come from steps, too. Search along "
        "both operands, and where one ends, go on with the other."
    ),
    "a dropout that is on": (
        "You walked through a dropout that is on (its third argument is `True`). It is meant to change the weights at "
        "random, so what lies around it is not a block, whatever its probability is."
    ),
    "weights on the right": (
        "You found a block where the weights are the *second* operand of the product below. That multiplies from the "
        "other side: the weights must be the first operand, the values the second."
    ),
    "any operation as a step": (
        "You walked through an operation that is no step, such as `tanh` on the scores. Only a scale, a mask that is "
        "added, a cast, and a dropout that is off may lie between."
    ),
    "wrong nodes": (
        "You found the right softmaxes, but the nodes around them are not theirs: each triple is product, softmax, "
        "product, in this order."
    ),
    "nodes of another graph": (
        "Your triples hold nodes of another graph, such as a copy. Whoever rewrites the graph needs its own nodes: "
        "search in the graph that you were given."
    ),
    "changed the graph": (
        "Afterwards the graph was not what it had been. Finding only looks: leave every node as it is."
    ),
    "counted twice": "You counted a block more than once: each softmax belongs to one block.",
    "other blocks": "The blocks that you found are not those that are in the graph.",
}

UNNAMED = ("other blocks",)
"""Says what is wrong, and names no mistake."""

FIXED = """
== the mask first, then the scores
return matmul(softmax(add(m, mul(matmul(q, T(k)), 0.5)), -1), v)

== a tensor first, then the scores
return matmul(softmax(mul(f, matmul(q, T(k))), -1), v)

== a mask from a product
b = aten.unsqueeze.default(bmm(e, T(e)), 1)
return matmul(softmax(add(b, matmul(q, T(k))), -1), v)

== a mask from a softmax
b = aten.unsqueeze.default(softmax(bmm(e, T(e)), -1), 1)
return matmul(softmax(add(matmul(q, T(k)), b), -1), v)

== a mask that is a product itself
return matmul(softmax(add(matmul(p, T(p)), matmul(q, T(k))), -1), v)

== a bias on the weights
return matmul(mul(add(m, softmax(matmul(q, T(k)), -1)), 2.0), v)

== weights on the right
w = softmax(matmul(q, T(k)), -1)
return matmul(T(v), w), matmul(w, v)

== weights on the right only
return matmul(T(v), softmax(matmul(q, T(k)), -1))

== two softmaxes in a row
return matmul(softmax(mul(softmax(matmul(q, T(k)), -1), 2.0), -1), v)

== a tanh on the scores
return matmul(softmax(unary("tanh", matmul(q, T(k))), -1), v)

== a tanh on the weights
return matmul(unary("tanh", softmax(matmul(q, T(k)), -1)), v)

== scores that divide
return matmul(softmax(div(m, matmul(q, T(k))), -1), v)

== a difference
return matmul(softmax(aten.sub.Tensor(matmul(q, T(k)), m), -1), v)

== scores that are turned
return matmul(softmax(T(matmul(q, T(k))), -1), v)

== scores and weights that are moved
s = aten.reshape.default(matmul(q, T(k)), [2, 3, 5, 5])
return matmul(softmax(s, -1), v), matmul(aten.clone.default(softmax(matmul(v, T(k)), -1)), q)

== scores that are filled
return matmul(softmax(aten.masked_fill.Scalar(matmul(q, T(k)), b, -1.0), -1), v)

== operators whose names contain a step's
s = aten.logaddexp.default(matmul(q, T(k)), m)
return matmul(softmax(s, -1), v), matmul(aten.addcmul.default(softmax(matmul(v, T(k)), -1), m, m), q)

== a cast by another overload
s = aten.to.dtype_layout(matmul(q, T(k)), dtype=torch.float64)
return matmul(softmax(s, -1), aten.to.dtype(v, torch.float64))

== a cast to the dtype of the scores
return matmul(softmax(aten.to.other(m, matmul(q, T(k))), -1), v)

== a divisor that is a tensor
return matmul(softmax(div(matmul(q, T(k)), f), -1), v)

== a mask with a factor
return matmul(softmax(add(matmul(q, T(k)), m, alpha=2), -1), v)

== a key that comes turned
return matmul(softmax(matmul(q, t), -1), v)

== one matrix for all
return matmul(softmax(matmul(w, w), -1), w)

== matrices without a batch
return matmul(softmax(matmul(a, T(c)), -1), c)

== a block that nobody reads
h = matmul(softmax(matmul(q, T(k)), -1), v)
return unary("sin", q)

== a mask from steps first, then the scores
return matmul(softmax(add(mul(m, -0.5), matmul(q, T(k))), -1), v)

== the scores first, then a mask from steps
return matmul(softmax(add(matmul(q, T(k)), div(to(m, torch.float32), 2.0)), -1), v)

== a mask from steps on either side
s = add(matmul(q, T(k)), mul(m, -0.5))
h = mul(matmul(v, T(k)), dropout(f, 0.1, False))
s = add(add(m, mul(m, 2.0)), div(s, 2.0))
h = mul(mul(add(f, f), f), to(h, torch.float32))
return matmul(softmax(s, -1), v), matmul(softmax(h, -1), q)

== a bias from steps on the weights
return matmul(mul(add(mul(m, 0.5), softmax(matmul(q, T(k)), -1)), 2.0), v)

== dropouts of probability 0
w = softmax(matmul(q, T(k)), -1)
s = dropout(matmul(v, T(k)), 0.0, True)
h = dropout(matmul(k, T(v)), 0.0, False)
return matmul(dropout(w, 0.0, True), v), matmul(softmax(s, -1), q), matmul(dropout(softmax(h, -1), 0.0, False), v)

== a dropout that is on
return matmul(dropout(softmax(matmul(q, T(k)), -1), 0.1, True), v)

== one dropout on, one off
w = softmax(matmul(q, T(k)), -1)
return matmul(dropout(w, 0.1, False), v), matmul(dropout(w, 0.1, True), v)

== two dropouts that are off
w = softmax(dropout(matmul(q, T(k)), 0.3, False), -1)
return matmul(dropout(w, 0.1, False), v), dropout(w, 0.1, False)

== weights that meet values twice
w = softmax(matmul(q, T(k)), -1)
return matmul(w, v), matmul(w, q)

== weights that another function reads first
w = softmax(matmul(q, T(k)), -1)
s = unary("sin", w)
u = dropout(softmax(matmul(v, T(k)), -1), 0.1, False)
h = unary("tanh", u)
return matmul(w, v), s, matmul(u, q), h

== scores that are read by two softmaxes
s = matmul(q, T(k))
return matmul(softmax(s, -1), v), matmul(softmax(mul(s, 2.0), -1), v)

== equal blocks
return matmul(softmax(matmul(q, T(k)), -1), v), matmul(softmax(matmul(q, T(k)), -1), v)

== a block that feeds a block
h = matmul(softmax(matmul(q, T(k)), -1), v)
return matmul(softmax(add(matmul(h, T(k)), m), -1), h)

== a look-alike that feeds a block
h = matmul(softmax(aten.linear.default(q, l), -1), l)
return matmul(softmax(matmul(h, T(k)), -1), v)

== a block between look-alikes
w = softmax(matmul(q, T(k)), -1)
h = unary("relu", matmul(matmul(unary("relu", matmul(w, v)), T(k)), v))
return softmax(matmul(h, T(k)), -1), aten.log_softmax.int(h, -1)

== all first products, then all softmaxes
a = matmul(q, T(k))
b = matmul(v, T(k))
c = softmax(b, -1)
d = softmax(a, -1)
return matmul(d, v), matmul(c, q)

== every step on both sides
s = div(add(m, mul(dropout(add(matmul(q, T(k)), m), 0.3, False), 0.5)), f)
w = softmax(mul(to(s, torch.float32), 2.0), -1)
w = mul(f, add(m, dropout(to(div(w, f), torch.float64), 0.1, False)))
return matmul(aten.to.dtype_layout(w, dtype=torch.float32), v)

== weights that divide
return matmul(div(m, softmax(matmul(q, T(k)), -1)), v)

== weights of which one reader leads to values
w = softmax(matmul(q, T(k)), -1)
s = unary("sin", dropout(w, 0.1, False))
h = matmul(mul(w, 2.0), v)
u = softmax(matmul(v, T(k)), -1)
x = matmul(mul(u, 2.0), v)
return h, s, x, unary("sin", dropout(u, 0.1, False))

== weights as values
w = softmax(matmul(q, T(k)), -1)
return matmul(w, w)

== an output that is another's scores
s = matmul(softmax(matmul(q, T(k)), -1), p)
return matmul(softmax(mul(s, 0.5), -1), v)

== a softmax over the queries
return matmul(softmax(matmul(q, T(k)), -2), v)

== a softmax that casts
return matmul(to(softmax(matmul(q, T(k)), -1, torch.float64), torch.float32), v)

== a sum of two softmaxes
return matmul(add(softmax(matmul(q, T(k)), -1), softmax(matmul(v, T(k)), -1)), v)

== three dimensions
return bmm(softmax(add(m3, bmm(e, T(e))), -1), e), matmul(softmax(bmm(e, T(e)), -1), e)

== an operator whose name contains another's
h = aten.addmm.default(b4, aten.multiply.Tensor(l, l), l)
return matmul(softmax(add(matmul(q, T(matmul(k, h))), m), -1), v)

== names that mislead
return matmul(softmax(unary("relu", matmul(q, T(k))), -1), matmul(softmax(mul(matmul(q, T(k)), 2.0), -1), v))

== one key, one query
return matmul(softmax(matmul(q, T(k)), -1), v)

== no batch at all
return matmul(softmax(matmul(q, T(k)), -1), v)

== a long way
s = matmul(q, T(k))
for _ in range(40): s = add(s, s)
return matmul(softmax(s, -1), v)

== a long way to no product
s = m
for _ in range(40): s = add(s, s)
return matmul(softmax(s, -1), v)

== a long way to the values
w = softmax(matmul(q, T(k)), -1)
for _ in range(40): w = mul(w, w)
u = softmax(matmul(v, T(k)), -1)
for _ in range(40): u = add(u, u)
return matmul(w, v), u

== twenty blocks
h = q
for _ in range(20): h = matmul(softmax(matmul(h, T(k)), -1), v)
return h

== nothing to find
return unary("sin", q)
"""
"""Name and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "a tensor first, then the scores": {"inputs": {"f": (5,)}},
    "scores that are filled": {"inputs": {"b": [(2, 1, 5, 5), "bool"]}},
    "every step on both sides": {"inputs": {"f": (5,)}},
    "an output that is another's scores": {"inputs": {"p": (2, 3, 5, 5)}},
    "a mask from steps on either side": {"inputs": {"f": (5,)}},
    "a divisor that is a tensor": {"inputs": {"f": (5,)}},
    "a key that comes turned": {"inputs": {"t": (2, 3, 4, 5)}},
    "one matrix for all": {"inputs": {"w": (2, 3, 5, 5)}},
    "matrices without a batch": {"inputs": {"a": (5, 4), "c": (5, 4)}},
    "a mask from a product": {"inputs": {"e": (2, 5, 4)}},
    "a mask from a softmax": {"inputs": {"e": (2, 5, 4)}},
    "a mask that is a product itself": {"inputs": {"p": SHAPE}},
    "a look-alike that feeds a block": {"inputs": {"l": (4, 4)}},
    "three dimensions": {"inputs": {"e": (2, 5, 4), "m3": (5, 5)}},
    "an operator whose name contains another's": {"inputs": {"l": (4, 4), "b4": (4,)}},
    "names that mislead": {"names": ["softmax", "relu", "matmul", "product", "transpose", "scores", "mask", "gelu"]},
    "one key, one query": {"inputs": dict.fromkeys("qkv", (1, 1, 1, 4))},
    "no batch at all": {"inputs": dict.fromkeys("qkv", (0, 3, 5, 4))},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """The same kinds of model in other sizes, a case for each class, and graphs of blocks among look-alikes."""
    seed = random.randrange(2**31)
    scale = random.choice(["divided", "query", "late"])
    drawn = [
        transformer("hidden encoder", "bert", layers=random.choice([1, 3]), heads=4, seed=seed),
        block("hidden stack", layers=random.randint(2, 4), scale=scale, seed=seed),
        block("hidden one head", layers=2, heads=False, cast=True, seed=seed),
        block("hidden gate", mixes="gate", seed=seed),
        block("hidden product", mixes=random.choice(["relu", "classes"]), seed=seed),
    ]
    return [*drawn, *written_cases(FIXED, MORE), *(mixture(random, f"hidden mixture {i}") for i in range(4))]


@once_a_case
def known(case: Case) -> tuple[list[Triple], dict[str, list[Triple]], int, str]:
    """The blocks that are there, what would be found under each mistake, how many nodes there are, and the graph."""
    graph = build(case).graph
    mistakes = {name: triples(graph, rules) for name, rules in FINDING.items()}
    return triples(graph), mistakes, len(graph.nodes), str(graph)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What was found against what is there."""
    rows = evidence.values["found"]
    if rows is None or any(not isinstance(row, list) for row in rows):
        yield "no list of triples", f"(found a {evidence.values['kind']})"
        return
    wanted, mistakes, size, graph = known(case)
    right, found = [softmax for _, softmax, _ in wanted], [str(row[1]) for row in rows]
    if not evidence.values["own"]:
        yield "nodes of another graph", ""
        return
    if accepted(wanted, rows):
        if evidence.values["after"] != graph:
            yield "changed the graph", ""
            return
        same = {named(name) for name, other in mistakes.items() if accepted(other, rows)}
        excluded = {named(name) for name in mistakes} - same
        if right and case.parameters["kind"] != "bert":
            excluded.add("other models overlooked")
        yield Agreement("other blocks", tuple(sorted(excluded)))
        return
    fits = {named(name) for name, other in mistakes.items() if other != wanted and accepted(other, rows)}
    if not found and case.parameters["kind"] != "bert":
        fits.add("other models overlooked")
    mentioned = {str(value) for row in rows for value in row}
    if not fits and rows and len(rows) == len(right) and set(right) <= mentioned:
        there = wanted[0]
        yield "wrong nodes", f"(found {rows[0]}, there is {[min(there[0]), there[1], min(there[2])]})"
    elif len(found) > len(right) and set(found) == set(right):
        yield "counted twice", f"({len(found)} found, {len(right)} there)"
    else:
        missing, extra = [name for name in right if name not in found], [name for name in found if name not in right]
        said = [f"missing: the block of {', '.join(missing[:4])}"] if missing else []
        said += [f"no block: that of {', '.join(extra[:4])}"] if extra else []
        figures = f"({len(found)} found, {len(right)} there{'; ' * bool(said)}{'; '.join(said)})"
        yield Deviation("other blocks", tuple(sorted(fits)), figures, size)
