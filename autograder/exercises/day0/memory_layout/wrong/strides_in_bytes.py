"""strides in bytes

Counts four bytes for each number, as NumPy does.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return tuple(4 * stride for stride in (height * width * channels, 1, width * channels, channels))
    strides, step = [], 4
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
