"""as if contiguous

Computes strides from the new sizes, and never looks at the old ones.
"""

from math import prod


def view(sizes, strides, wanted):
    count, wanted = prod(sizes), list(wanted)
    if wanted.count(-1) > 1:
        raise ValueError("two unknown sizes")
    if -1 in wanted:
        rest = -prod(wanted)
        if rest == 0 or count % rest:
            raise ValueError("no size for -1")
        wanted[wanted.index(-1)] = count // rest
    if prod(wanted) != count:
        raise ValueError("another number of elements")
    new, step = [], 1
    for size in reversed(wanted):
        new.insert(0, step)
        step *= size
    return tuple(wanted), tuple(new)
