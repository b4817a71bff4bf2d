"""layout ignored

Believes that channels last is only a hint.
"""


def strides_of(shape, channels_last=False):
    strides = []
    for axis in range(len(shape)):
        stride = 1
        for size in shape[axis + 1 :]:
            stride *= size
        strides.append(stride)
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
