"""one layout for both

With one channel both layouts lie the same, so it takes them for contiguous.
"""


def strides_of(shape, channels_last=False):
    if channels_last and shape[1] == 1:
        channels_last = False
    strides, step = [0] * len(shape), 1
    for dimension in reversed([0, 2, 3, 1] if channels_last else range(len(shape))):
        strides[dimension] = step
        step *= shape[dimension]
    return tuple(strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
