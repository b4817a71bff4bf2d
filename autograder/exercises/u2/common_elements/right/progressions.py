"""Intersects arithmetic progressions: first, last and step of each run along the long dimension."""

from itertools import product
from math import lcm


def runs(view):
    """Each index of the short dimensions with the run along the long one, as a range."""
    sizes, strides, offset = view
    if 0 in sizes:
        return []
    dims = sorted(zip(sizes, strides), key=lambda dim: dim[0])
    size, step = dims.pop() if dims else (1, 0)
    found = []
    for index in product(*(range(n) for n, _ in dims)):
        start = offset + sum(i * s for i, (_, s) in zip(index, dims))
        found.append(range(start, start + size * step, step) if step else range(start, start + 1))
    return found


def meet(one, other):
    """The first common value of two ranges with steps forward, or None."""
    if len(one) == 1:
        return one[0] if one[0] in other else None
    if len(other) == 1:
        return other[0] if other[0] in one else None
    # Sieve: walk the values of one that are right modulo the step of the other, prime power by prime power.
    value, step = max(one[0], other[0]), 1
    for run in (one, other):
        try:
            shift = (run[0] - value) * inverse(step, run.step)
        except ZeroDivisionError:
            shift = solve(step, run.step, run[0] - value)
            if shift is None:
                return None
        value += step * (shift % run.step)
        step = lcm(step, run.step)
    low = max(one[0], other[0])
    value = low + (value - low) % step
    return value if value in one and value in other else None


def inverse(a, n):
    try:
        return pow(a, -1, n)
    except ValueError:
        raise ZeroDivisionError from None


def solve(a, n, b):
    """x with a * x == b modulo n, or None."""
    from math import gcd

    g = gcd(a, n)
    return None if b % g else b // g * pow(a // g, -1, n // g) if n // g > 1 else 0


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
