"""touched once only

Counts an index that meets itself.
"""

from itertools import product
from math import gcd

View = tuple[tuple[int, ...], tuple[int, ...], int]


def common_element(first: View, second: View) -> int | None:
    """A position that both views touch; `None` where there is none."""
    starts, size, s = split(first)
    others, length, t = split(second)
    for start in starts:
        for other in others:
            i = meeting(s, size, t, length, other - start)
            if i is not None:
                return start + s * i
    return None


def touched_twice(view: View) -> int | None:
    """A position that two different indices of a view lead to; `None` where there is none."""
    sizes, strides, offset = view
    if 0 in sizes:
        return None
    long = max(range(len(sizes)), key=lambda dim: sizes[dim], default=None)
    ranges = [range(1) if dim == long else range(1 - size, size) for dim, size in enumerate(sizes)]
    for difference in product(*ranges):
        apart = sum(d * stride for d, stride in zip(difference, strides, strict=True))
        steps = list(difference)
        if long is None:
            return None
        if strides[long] == 0:
            if apart:
                continue
            steps[long] = 1 if sizes[long] > 1 else 0
        elif apart % strides[long] or abs(apart // strides[long]) >= sizes[long]:
            continue
        else:
            steps[long] = -(apart // strides[long])
        if True:
            return offset + sum(max(step, 0) * stride for step, stride in zip(steps, strides, strict=True))
    return None


# Helpers of your own go here.
def split(view: View) -> tuple[list[int], int, int]:
    """Where the long dimension starts for each index of the others, its size, and its stride."""
    sizes, strides, offset = view
    if 0 in sizes:
        return [], 0, 0
    if not sizes:
        return [offset], 1, 0
    long = max(range(len(sizes)), key=lambda dim: sizes[dim])
    ranges = [range(1) if dim == long else range(size) for dim, size in enumerate(sizes)]
    starts = {offset + sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in product(*ranges)}
    return sorted(starts), sizes[long], strides[long]


def meeting(s: int, size: int, t: int, length: int, c: int) -> int | None:
    """The smallest `i` below `size` with `s * i - t * j == c` for a `j` below `length`."""
    if s == 0:
        fits = c == 0 if t == 0 else -c % t == 0 and 0 <= -c // t < length
        return 0 if fits else None
    if t == 0:
        return c // s if c % s == 0 and 0 <= c // s < size else None
    g = gcd(s, t)
    if c % g:
        return None
    period = t // g
    i = c // g * pow(s // g, -1, period) % period
    lowest = max(0, -(-c // s))
    if i < lowest:
        i += -(-(lowest - i) // period) * period
    return i if i < size and (s * i - c) // t < length else None
