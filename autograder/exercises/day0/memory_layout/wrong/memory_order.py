"""strides in the order of memory

Believes that channels last permutes the dimensions.
"""


def strides_of(shape, channels_last=False):
    if channels_last:
        shape = (shape[0], shape[2], shape[3], shape[1])
    strides = []
    for axis in range(len(shape)):
        stride = 1
        for size in shape[axis + 1 :]:
            stride *= size
        strides.append(stride)
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
