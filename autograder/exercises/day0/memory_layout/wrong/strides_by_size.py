"""wrong channels-last strides

Looks up where a size stands in the shape, which is not known where two sizes are equal.
"""


def strides_of(shape, channels_last=False):
    if not channels_last:
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= size
        return tuple(strides)
    batch, channels, height, width = shape
    by_size, step = {}, 1
    for size in (channels, width, height, batch):
        by_size[size] = step
        step *= size
    return tuple(by_size[size] for size in shape)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
