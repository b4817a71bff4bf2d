"""0 is a position

Asks `if position:`, which 0 does not pass.
"""

from itertools import product

View = tuple[tuple[int, ...], tuple[int, ...], int]


def egcd(a, b):
    x, y, u, v = 1, 0, 0, 1
    while b:
        q = a // b
        a, b, x, y, u, v = b, a - q * b, u, v, x - q * u, y - q * v
    return a, x, y


def parts(view):
    sizes, strides, offset = view
    long = max(range(len(sizes)), key=lambda d: sizes[d], default=None)
    rest = [d for d in range(len(sizes)) if d != long]
    starts = [
        offset + sum(i * strides[d] for i, d in zip(index, rest)) for index in product(*(range(sizes[d]) for d in rest))
    ]
    return starts, (1, 0) if long is None else (sizes[long], strides[long])


def ceil_div(a, b):
    return -((-a) // b)


def common_element(first, second):
    one, (n, s) = parts(first)
    two, (m, t) = parts(second)
    if n == 0 or m == 0:
        return None
    for a in one:
        for b in two:
            i = solve(s, n, t, m, b - a)
            if i is not None and a + s * i:
                return a + s * i
    return None


def solve(s, n, t, m, c):
    """i in [0, n) such that s * i == c + t * j, j in [0, m)."""
    if s == 0 and t == 0:
        return 0 if c == 0 else None
    g, x, y = egcd(s, t)
    if c % g:
        return None
    i, j = x * (c // g), -y * (c // g)
    # all: i + k * t/g, j + k * s/g
    low, high = [], []
    for value, step, size in ((i, t // g, n), (j, s // g, m)):
        if step == 0:
            if not 0 <= value < size:
                return None
        else:
            low.append(ceil_div(-value, step))
            high.append((size - 1 - value) // step)
    if max(low) > min(high):
        return None
    return i + max(low) * (t // g)


def touched_twice(view):
    sizes, strides, offset = view
    starts, (n, s) = parts(view)
    if n == 0 or not starts:
        return None
    if s == 0 and n > 1:
        return offset
    for p in range(len(starts)):
        for q in range(p + 1, len(starts)):
            d = starts[q] - starts[p]
            if s == 0:
                if d == 0:
                    return starts[p]
            elif d % s == 0 and abs(d // s) < n:
                return max(starts[p], starts[q])
    return None
