"""not reached by both

Only looks for common elements from the start of the second view on: the one that begins later must be the second.
"""

from itertools import product
from math import gcd


def progressions(view):
    """The view as progressions (first, step, how many): one for each index of the short dimensions."""
    sizes, strides, offset = view
    if 0 in sizes:
        return []
    if not sizes:
        return [(offset, 1, 1)]
    long = max(range(len(sizes)), key=lambda d: sizes[d])
    short = [d for d in range(len(sizes)) if d != long]
    step, many = strides[long], sizes[long]
    found = []
    for index in product(*(range(sizes[d]) for d in short)):
        found.append((offset + sum(i * strides[d] for i, d in zip(index, short)), step, many))
    return found


def common_element(first, second):
    """Both progressions are congruences: the Chinese remainder theorem joins them."""
    for a, s, n in progressions(first):
        if s == 0:
            s, n = 1, 1
        for b, t, m in progressions(second):
            if t == 0:
                t, m = 1, 1
            g = gcd(s, t)
            if (b - a) % g:
                continue
            period = s // g * t
            x = a + s * ((b - a) // g * pow(s // g, -1, t // g) % (t // g))
            lowest = b
            x += (lowest - x + period - 1) // period * period
            if x <= min(a + s * (n - 1), b + t * (m - 1)):
                return x
    return None


def touched_twice(view):
    """Two progressions of the same step meet if their starts differ by few enough steps."""
    found = progressions(view)
    if found and found[0][1] == 0 and found[0][2] > 1:
        return found[0][0]
    for number, (a, s, n) in enumerate(found):
        for b, _, _ in found[:number]:
            if a == b:
                return a
            if s and (a - b) % s == 0 and abs(a - b) // s < n:
                return max(a, b)
    return None
