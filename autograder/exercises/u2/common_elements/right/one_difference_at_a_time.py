"""Turns both questions into one: can a sum of steps within bounds make up a distance?"""

from itertools import product
from math import gcd


def reach(dims, long, distance):
    """Steps (one number for each of `dims` and two of `long`) that add up to `distance`, or None."""
    (size, stride), (other_size, other_stride) = long
    for steps in product(*(range(low, high + 1) for low, high, _ in dims)):
        rest = distance - sum(step * stride for step, (_, _, stride) in zip(steps, dims))
        found = two(size, stride, other_size, other_stride, rest)
        if found is not None:
            return [*steps, *found]
    return None


def two(m, s, n, t, rest):
    """(i, j) with i * s - j * t == rest, 0 <= i < m, 0 <= j < n."""
    if not s:
        m, s = 1, 1
    if not t:
        n, t = 1, 1
    g, x, _ = euclid(s, t)
    if rest % g:
        return None
    i = x * (rest // g) % (t // g)
    j = (i * s - rest) // t
    more = max(0, -(j // (s // g)))
    i, j = i + more * (t // g), j + more * (s // g)
    return (i, j) if i < m and j < n else None


def euclid(a, b):
    if not b:
        return a, 1, 0
    g, x, y = euclid(b, a % b)
    return g, y, x - a // b * y


def parts(view):
    dims = sorted([(1, 1), *zip(view[0], view[1])])
    return dims[:-1], dims[-1]


def common_element(first, second):
    (shorts, long), (others, other_long) = parts(first), parts(second)
    dims = [(0, size - 1, stride) for size, stride in shorts]
    dims += [(1 - size, 0, stride) for size, stride in others]
    found = reach(dims, (long, other_long), second[2] - first[2])
    if found is None:
        return None
    return first[2] + sum(step * stride for step, (_, stride) in zip(found, shorts)) + found[-2] * long[1]


def touched_twice(view):
    if 0 in view[0]:
        return None
    shorts, (size, stride) = parts(view)
    if not stride:
        return view[2]
    for steps in product(*(range(1 - n, n) for n, _ in shorts)):
        rest = sum(step * s for step, (_, s) in zip(steps, shorts))
        far = -rest // stride
        if any(steps) and far * stride + rest == 0 and abs(far) < size:
            pairs = [*zip(steps, shorts), (far, (size, stride))]
            return view[2] + sum(max(0, -step) * s for step, (_, s) in pairs)
    return None
