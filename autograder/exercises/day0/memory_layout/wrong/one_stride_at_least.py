"""strides without dimensions

Begins with the stride of the last dimension, whether there is one or not.
"""


def strides_of(shape: tuple[int, ...], channels_last: bool = False) -> tuple[int, ...]:
    """How many elements apart neighbours in each dimension lie."""
    if channels_last:
        _, channels, height, width = shape
        return (height * width * channels, 1, width * channels, channels)
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)


def position(index: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Where in memory the element at `index` lies, counted in elements from the first."""
    return sum(at * stride for at, stride in zip(index, strides))
