"""strides of ones

Believes that where there is no next index there is no stride.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return (height * width * channels, 1, width * channels, channels)
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(0 if size == 1 else stride for size, stride in zip(shape, strides))


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
