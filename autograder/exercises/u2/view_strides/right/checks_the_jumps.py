"""Guesses each new stride from one position, and asks the other way round: does the guess visit where each old one leads?"""

from math import prod


def view(sizes, strides, wanted):
    count = prod(sizes)
    if -1 in wanted:
        rest = prod(-size if size == -1 else size for size in wanted)
        if wanted.count(-1) > 1 or not rest:
            raise ValueError("no definite size")
        wanted = [count // rest if size == -1 else size for size in wanted]
    if prod(wanted) != count or any(size < 0 for size in wanted):
        raise ValueError("not so many elements")

    def inner(shape):
        """How many elements one step of each dimension jumps over."""
        return [prod(shape[dim + 1 :]) for dim in range(len(shape))]

    def place(number, shape, steps):
        return sum(number // jump % size * step for jump, size, step in zip(inner(shape), shape, steps))

    if count == 0:
        return wanted, wanted
    new = [place(jump, sizes, strides) for jump in inner(wanted)]
    for number in inner(sizes):
        if place(number, sizes, strides) != place(number, wanted, new):
            raise ValueError("an old stride leads elsewhere")
    return wanted, new
