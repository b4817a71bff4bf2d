"""wrong position

Adds up a set of products, in which equal ones are one.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return height * width * channels, 1, width * channels, channels
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def position(index, strides):
    return sum({i * stride for i, stride in zip(index, strides)})
