"""Names the order of the dimensions in memory, slowest first, and goes through it from the end."""

from functools import reduce


def strides_of(shape, channels_last=False):
    order = [0, 2, 3, 1] if channels_last else list(range(len(shape)))
    strides = dict.fromkeys(order)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides[axis] for axis in range(len(shape)))


def position(index, strides):
    return reduce(lambda so_far, pair: so_far + pair[0] * pair[1], zip(index, strides), 0)
