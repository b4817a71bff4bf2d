"""not reached by both

Rounds a quotient of floats up: where both views have begun is off by one, far along.
"""

from itertools import product
from math import ceil

View = tuple[tuple[int, ...], tuple[int, ...], int]


def _euclid(a, b):
    x, y, u, v = 1, 0, 0, 1
    while b:
        q = a // b
        a, b, x, u, y, v = b, a - q * b, u, x - q * u, v, y - q * v
    return a, x, y


def split(view):
    sizes, strides, offset = view
    if 0 in sizes:
        return [], 0, 0
    if not sizes:
        return [offset], 1, 0
    long = max(range(len(sizes)), key=lambda d: sizes[d])
    rest = [d for d in range(len(sizes)) if d != long]
    starts = [
        offset + sum(strides[d] * i for d, i in zip(rest, index)) for index in product(*(range(sizes[d]) for d in rest))
    ]
    return starts, sizes[long], strides[long]


def meeting(s, size, t, length, c):
    if s == 0 and t == 0:
        return 0 if c == 0 else None
    if s == 0:
        return 0 if c <= 0 and -c % t == 0 and -c // t < length else None
    if t == 0:
        return c // s if c >= 0 and c % s == 0 and c // s < size else None
    g, x, _ = _euclid(s, t)
    if c % g:
        return None
    step = t // g
    i = (x * (c // g)) % step
    least = ceil(c / s)
    if i < least:
        i += ceil((least - i) / step) * step
    return i if i < size and (s * i - c) // t < length else None


def common_element(first: View, second: View) -> int | None:
    a, size, s = split(first)
    b, length, t = split(second)
    for one in a:
        for other in b:
            i = meeting(s, size, t, length, other - one)
            if i is not None:
                return one + s * i
    return None


def touched_twice(view: View) -> int | None:
    sizes, strides, offset = view
    if 0 in sizes:
        return None
    if not sizes:
        return None
    long = max(range(len(sizes)), key=lambda d: sizes[d])
    rest = [d for d in range(len(sizes)) if d != long]
    size, stride = sizes[long], strides[long]
    if size > 1 and stride == 0:
        return offset
    for difference in product(*(range(1 - sizes[d], sizes[d]) for d in rest)):
        gap = sum(strides[d] * one for d, one in zip(rest, difference))
        if stride == 0 or size == 1:
            far = 0 if gap == 0 else None
        else:
            far = -gap // stride if gap % stride == 0 and abs(gap) // stride < size else None
        if far is None or (far == 0 and not any(difference)):
            continue
        start = offset + sum(strides[d] * max(0, one) for d, one in zip(rest, difference))
        return start + stride * max(0, far)
    return None
