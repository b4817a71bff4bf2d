"""sizes as strides

Takes the size of the next dimension for the stride.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return (height * width * channels, 1, width * channels, channels)
    return (*shape[1:], 1)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
