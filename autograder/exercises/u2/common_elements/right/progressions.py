"""Intersects arithmetic progressions: first, last and step of each run along the long dimension."""

from itertools import product
from math import gcd, lcm


def runs(view):
    """Each index of the short dimensions with the run along the long one, as a range."""
    sizes, strides, offset = view
    dims = sorted([(1, 1), *zip(sizes, strides)])
    size, step = dims.pop()
    found = []
    for index in product(*(range(n) for n, _ in dims)):
        start = offset + sum(i * s for i, (_, s) in zip(index, dims))
        found.append(range(start, start + size * step, step) if step else range(start, start + 1))
    return found


def meet(one, other):
    """The first common value of two ranges with steps forward, or None."""
    g, apart = gcd(one.step, other.step), other[0] - one[0]
    value = one[0] + one.step * (apart // g * pow(one.step // g, -1, other.step // g))
    low = max(one[0], other[0])
    value = low + (value - low) % lcm(one.step, other.step)
    return value if value in one and value in other else None


def common_element(first, second):
    others = runs(second)
    for one in runs(first):
        for other in others:
            place = meet(one, other)
            if place is not None:
                return place
    return None


def touched_twice(view):
    sizes, strides, offset = view
    if 0 in sizes:
        return None
    if any(size > 1 and stride == 0 for size, stride in zip(sizes, strides)):
        return offset
    all_runs = runs(view)
    for number, one in enumerate(all_runs):
        for other in all_runs[:number]:
            place = meet(one, other)
            if place is not None:
                return place
    return None
