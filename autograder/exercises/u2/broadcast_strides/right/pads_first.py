"""Fills the shapes up with ones first, and goes through columns."""


def broadcast(operands):
    rank = max(len(sizes) for sizes, _ in operands)
    padded = [([1] * (rank - len(n)) + list(n), [0] * (rank - len(n)) + list(s)) for n, s in operands]
    shape = []
    for dim in range(rank):
        column = [sizes[dim] for sizes, _ in padded]
        shape.append(next((size for size in column if size != 1), 1))
    for dim in reversed(range(rank)):
        if any(sizes[dim] not in (1, shape[dim]) for sizes, _ in padded):
            raise ValueError(f"dimension {dim - rank}: does not go together")
    strides = [tuple(0 if n != wanted else s for n, s, wanted in zip(*operand, shape)) for operand in padded]
    return tuple(shape), strides
