"""position in bytes

Answers for the address, with four bytes to a number.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        _, channels, height, width = shape
        return (height * width * channels, 1, width * channels, channels)
    strides = []
    for axis in range(len(shape)):
        stride = 1
        for size in shape[axis + 1 :]:
            stride *= size
        strides.append(stride)
    return tuple(strides)


def position(index, strides):
    return 4 * sum(i * stride for i, stride in zip(index, strides))
