"""only one fits

Stops at the first format that fits.
"""


def channels_last_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a new tensor in channels-last order."""
    strides, expected = [0] * len(sizes), 1
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        strides[dim] = expected
        expected *= sizes[dim]
    return tuple(strides)


def formats_that_fit(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[str]:
    """The formats in which a tensor of these strides is contiguous."""
    found = []
    orders = {"contiguous": range(len(sizes) - 1, -1, -1), "channels_last": (1, *range(len(sizes) - 1, 1, -1), 0)}
    for name, order in orders.items():
        expected, fits = 1, True
        for dim in order:
            fits = fits and (sizes[dim] == 1 or strides[dim] == expected)
            expected *= sizes[dim]
        if fits or (name == "contiguous" and 0 in sizes):
            return [name]
    return found


def suggested_format(sizes: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """The format that PyTorch reads from strides, where they leave a choice too."""
    if strides[1] == 0 or 0 in sizes:
        return "contiguous"
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return "contiguous"
        least = strides[dim] * sizes[dim]
    return "channels_last"
