"""columns before rows

Lets the pixels of a column lie side by side.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return (height * width * channels, 1, channels, height * channels)
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
