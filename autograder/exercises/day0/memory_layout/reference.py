"""The reference answer of memory_layout, made from its notebook by `make notebooks`."""


def strides_of(shape: tuple[int, ...], channels_last: bool = False) -> tuple[int, ...]:
    """How many elements apart neighbours in each dimension lie."""
    if channels_last:
        _, channels, height, width = shape
        return height * width * channels, 1, width * channels, channels
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def position(index: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Where in memory the element at `index` lies, counted in elements from the first."""
    return sum(i * stride for i, stride in zip(index, strides, strict=True))
