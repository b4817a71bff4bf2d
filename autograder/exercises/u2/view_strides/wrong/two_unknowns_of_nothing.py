"""indefinite size accepted

Trusts the product to tell two sizes of -1, and without elements it is 0 either way.
"""

from math import prod


def view(sizes, strides, wanted):
    sizes, strides, wanted = tuple(sizes), tuple(strides), list(wanted)
    total = prod(sizes)
    if any(w < -1 for w in wanted):
        raise ValueError("bad size")
    if -1 in wanted:
        rest = prod(w for w in wanted if w != -1)
        if rest == 0 or total % rest:
            raise ValueError("not definite")
        wanted[wanted.index(-1)] = total // rest
    if prod(wanted) != total:
        raise ValueError("other number of elements")
    wanted = tuple(wanted)
    if total == 0:
        return wanted, tuple(prod(max(w, 1) for w in wanted[d + 1 :]) for d in range(len(wanted)))
    old = [(s, t) for s, t in zip(sizes, strides) if s != 1]
    # Boundaries, in elements counted from the end, at which the old tensor does not go on evenly.
    ends, inner = [], 1
    evens = []  # (inner, outer, stride) of each even run
    start, stride = 1, None
    for position in range(len(old) - 1, -1, -1):
        size, step = old[position]
        if stride is None:
            start, stride = inner, step
        elif step != stride * (inner // start):
            evens.append((start, inner, stride))
            start, stride = inner, step
        inner *= size
    if stride is not None:
        evens.append((start, inner, stride))
    result, at = [], 1
    for size in reversed(wanted):
        if size == 1:
            result.append(1)
            continue
        low, high, stride = next(run for run in evens if run[0] <= at < run[1])
        if at % low or at * size > high or high % (at * size):
            raise ValueError("reaches over an end")
        result.append(stride * (at // low))
        at *= size
    return wanted, tuple(reversed(result))
