"""not a ValueError

Raises an IndexError.
"""


def broadcast(
    operands: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The common shape, and the strides with which each operand has it."""
    rank = max(len(sizes) for sizes, _ in operands)
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for dim in range(-1, -rank - 1, -1):
        own = [sizes[dim] if -dim <= len(sizes) else 1 for sizes, _ in operands]
        others = {size for size in own if size != 1}
        if len(others) > 1:
            raise IndexError(f"dimension {dim}: sizes {sorted(others)} do not go together")
        size = others.pop() if others else 1
        shape.insert(0, size)
        for number, (_, given) in enumerate(operands):
            strides[number].insert(0, given[dim] if own[number] == size and -dim <= len(given) else 0)
    return tuple(shape), [tuple(one) for one in strides]
