"""Guesses each stride from one position, and then compares every kind of jump from an element to the next."""

from math import lcm, prod


def view(sizes, strides, wanted):
    count = prod(sizes)
    if -1 in wanted:
        rest = prod(-size if size == -1 else size for size in wanted)
        if tuple(wanted).count(-1) != 1 or not rest or count % rest:
            raise ValueError("no definite size")
        wanted = [count // rest if size == -1 else size for size in wanted]
    if prod(wanted) != count or any(size < 0 for size in wanted):
        raise ValueError("not so many elements")
    if count == 0:
        return wanted, [7 for _ in wanted]

    def inner(shape):
        """How many elements one step of each dimension jumps over."""
        return [prod(shape[dim + 1 :]) for dim in range(len(shape))]

    def place(number, shape, steps):
        return sum(number // jump % size * step for jump, size, step in zip(inner(shape), shape, steps))

    new = [place(jump, sizes, strides) if size > 1 else 0 for jump, size in zip(inner(wanted), wanted)]
    # The way from an element to the next depends only on which dimensions begin anew there.
    for number in {lcm(one, other) for one in (1, *inner(sizes)) for other in (1, *inner(wanted))}:
        if number < count:
            ways = [place(number, *at) - place(number - 1, *at) for at in ((sizes, strides), (wanted, new))]
            if ways[0] != ways[1]:
                raise ValueError(f"the step to element {number} is another one")
    return wanted, new
