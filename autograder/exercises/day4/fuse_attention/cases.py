"""The fixed hidden cases of this task: a graph for each class of mistakes."""

from __future__ import annotations

from typing import Any

from autograder.exercises.day4.blocks import SHAPE

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

== the mask first, then several factors
return matmul(softmax(add(m, div(mul(matmul(q, T(k)), 0.9), 0.4)), -1), v)

== a number first, then the scores
return matmul(softmax(add(mul(0.6, matmul(q, T(k))), m), -1), v)

== a mask from a long way
n = m
for _ in range(40): n = add(mul(n, 0.5), div(n, 2.0))
return matmul(softmax(add(mul(matmul(q, T(k)), 0.6), n), -1), v)

== a mask that is made in the graph
n = q.tracer.create_proxy("call_function", aten.full.default, ([5, 5], -1e4), {})
return matmul(softmax(add(mul(matmul(q, T(k)), 0.6), aten.tril.default(n, -1)), -1), v)

== masks of other shapes
a = matmul(softmax(add(matmul(q, T(k)), m2), -1), v)
b = matmul(softmax(add(matmul(q, T(k)), m3), -1), v)
c = matmul(softmax(add(matmul(q, T(k)), m5), -1), v)
return a, b, c, matmul(softmax(add(matmul(q, T(k)), m4), -1), v)

== the last dimension by its number
a = matmul(softmax(mul(matmul(q, T(k)), 0.3), 3), v)
return a, bmm(softmax(mul(bmm(e, T(e)), 0.8), 2), e)

== an idle dropout and idle casts
s = to(mul(matmul(q, T(k)), 0.7), torch.float32)
return matmul(to(dropout(softmax(add(s, m), -1), 0.4, False), torch.float32), v)

== idle steps everywhere
s = dropout(to(matmul(q, T(k)), torch.float32), 0.3, False)
s = aten.to.dtype_layout(add(to(mul(s, 0.7), torch.float32), m), dtype=torch.float32)
w = to(softmax(dropout(s, 0.2, False), -1), torch.float32)
return matmul(dropout(dropout(w, 0.1, False), 0.4, False), v)

== what blocks share
t = T(k)
u, n = unary("sin", v), unary("tanh", m)
a = matmul(softmax(add(mul(matmul(q, t), 0.3), n), -1), u)
return a, matmul(softmax(add(matmul(a, t), n), -1), u), unary("sin", a), t, u, n

== matrices without a batch
return matmul(softmax(mul(matmul(a, T(c)), 0.8), -1), c)

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

== a mask that is the output of a block
a = matmul(softmax(mul(matmul(q, T(k)), 0.2), -1), w)
return matmul(softmax(add(matmul(v, T(k)), a), -1), v)

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

== the mask before several factors
s = mul(div(mul(add(matmul(q, T(k)), m4), 0.7), 0.4), 0.3)
return matmul(softmax(s, -1), v)

== a mask with a small factor, a mask that is subtracted
a = matmul(softmax(add(matmul(q, T(k)), m4, alpha=0.5), -1), v)
return a, matmul(softmax(add(matmul(v, T(k)), m4, alpha=-1), -1), q)

== a mask with a factor
return matmul(softmax(add(matmul(q, T(k)), m4, alpha=3), -1), v)

== a mask of ones and zeros
return matmul(softmax(add(matmul(q, T(k)), b), -1), v)

== a factor after the softmax
return matmul(mul(softmax(matmul(q, T(k)), -1), 3.0), v)

== a divisor after the softmax
return matmul(div(softmax(matmul(q, T(k)), -1), 3.0), v)

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

== scores multiplied and divided by themselves
s, h = matmul(q, T(k)), matmul(v, T(k))
return matmul(softmax(mul(s, s), -1), v), matmul(softmax(div(h, h), -1), q)

== a cast that rounds
s = to(to(matmul(q, T(k)), torch.bfloat16), torch.float32)
return matmul(softmax(s, -1), v)

== a cast that rounds the weights
w = to(to(softmax(mul(matmul(q, T(k)), 0.4), -1), torch.bfloat16), torch.float32)
return matmul(w, v)

== a cast of the weights for their values
return matmul(to(softmax(mul(matmul(q, T(k)), 0.4), -1), torch.float64), d)

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

== scores that their own mask reads
s, h = matmul(q, T(k)), bmm(e, T(e))
return matmul(softmax(add(s, matmul(p, s)), -1), v), bmm(softmax(add(h, bmm(o, h)), -1), e)

== scores that two softmaxes read
s = matmul(q, T(k))
return matmul(softmax(s, -1), v), matmul(softmax(mul(s, 2.0), -1), v)

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
    "masks of other shapes": {"inputs": {"m2": (5, 5), "m3": (3, 5, 5), "m4": (2, 3, 1, 5), "m5": (2, 1, 5, 1)}},
    "the last dimension by its number": {"inputs": {"e": (2, 5, 4)}},
    "a key that comes turned": {"inputs": {"t": (2, 3, 4, 5)}},
    "a key that another transpose turned": {"inputs": {"q": (2, 3, 5, 3), "k": (2, 3, 3, 3), "v": (2, 3, 3, 4)}},
    "as many keys as the head is wide": {"inputs": dict.fromkeys("qkv", (2, 3, 4, 4))},
    "fewer queries than keys, wider values": {"inputs": {"q": (2, 3, 2, 4), "v": (2, 3, 5, 7)}},
    "one query, one key": {"inputs": dict.fromkeys("qkv", (1, 1, 1, 4))},
    "a product of two blocks": {"inputs": {"w": (2, 3, 5, 5)}},
    "matrices without a batch": {"inputs": {"a": (5, 4), "c": (5, 4)}},
    "a mask from a product": {"inputs": {"e": (2, 5, 4)}},
    "double precision": {"inputs": DOUBLE},
    "a mask that is the output of a block": {"inputs": {"w": (2, 3, 5, 5)}},
    "the mask before several factors": {"inputs": {"m4": (2, 3, 1, 5)}},
    "a mask with a small factor, a mask that is subtracted": {"inputs": {"m4": (2, 3, 1, 5)}},
    "a cast of the weights for their values": {"inputs": {"d": [SHAPE, "float64"]}},
    "scores that their own mask reads": {"inputs": {"p": (2, 3, 5, 5), "e": (2, 5, 4), "o": (2, 5, 5)}},
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
