"""Brings two operands together at a time, and notes misfits for the end."""

from functools import reduce
from itertools import zip_longest


def broadcast(operands):
    def together(one, other):
        pairs = zip_longest(reversed(one), reversed(other), fillvalue=1)
        return [b if a == 1 else a for a, b in pairs][::-1]

    shape = reduce(together, (sizes for sizes, _ in operands))
    misfits = []
    found = []
    for sizes, strides in operands:
        new = len(shape) - len(sizes)
        line = [0] * new
        for dim, (size, stride) in enumerate(zip(sizes, strides), start=new):
            if size not in (1, shape[dim]):
                misfits.append(dim - len(shape))
            line.append(stride if size == shape[dim] else 0)
        found.append(line)
    if misfits:
        raise ValueError(f"dimension {max(misfits)}: sizes differ")
    return shape, found
