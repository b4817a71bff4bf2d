"""indefinite size accepted

Puts the same size in the place of each -1.
"""

from math import prod


def view(
    sizes: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of the view of that shape; `ValueError` where only a copy could have it."""
    count = prod(sizes)
    if any(size < -1 for size in wanted):
        raise ValueError(f"{wanted} is not a shape")
    if -1 in wanted:
        rest = prod(size for size in wanted if size != -1)
        if rest == 0 or count % rest:
            raise ValueError(f"no definite size takes the place of -1 in {wanted}")
        wanted = tuple(count // rest if size == -1 else size for size in wanted)
    if prod(wanted) != count:
        raise ValueError(f"{wanted} does not have {count} elements")
    if count == 0:
        return wanted, (1,) * len(wanted)
    blocks: list[list[int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == stride * size:
            blocks[-1] = [blocks[-1][0] * size, stride]
        else:
            blocks.append([size, stride])
    found = []
    left, step = 1, 1
    for size in reversed(wanted):
        if size == 1:
            found.append(step)
            continue
        if left == 1:
            left, step = blocks.pop()
        if left % size:
            raise ValueError(f"a size of {size} would reach across a gap")
        found.append(step)
        left, step = left // size, step * size
    return wanted, tuple(reversed(found))
