"""wrong strides

Asks whether `channels_last` was given, not what it says.
"""


def strides_of(shape, channels_last=None):
    if channels_last is not None:
        _, channels, height, width = shape
        return height * width * channels, 1, width * channels, channels
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
