"""Puts the dimensions into the order of the format, and reuses what is known of the ordinary one."""

from itertools import accumulate
from operator import mul


def to_last(numbers):
    """From (batch, channels, ...) to (batch, ..., channels)."""
    return (numbers[0], *numbers[2:], numbers[1])


def from_last(numbers):
    return (numbers[0], numbers[-1], *numbers[1:-1])


def plain(sizes):
    return tuple(accumulate([1, *reversed(sizes[1:])], mul))[::-1]


def channels_last_strides(sizes):
    return from_last(plain(to_last(sizes)))


def formats_that_fit(sizes, strides):
    def fits(wanted):
        return all(size == 1 or stride == one for size, stride, one in zip(sizes, strides, wanted))

    names = ["contiguous"] if 0 in sizes or fits(plain(sizes)) else []
    return names + ["channels_last"] * fits(channels_last_strides(sizes))


def suggested_format(sizes, strides):
    pairs = list(zip(to_last(sizes), to_last(strides)))
    if strides[1] == 0 or not all(size for size, _ in pairs):
        return "contiguous"
    extents = [size * stride for size, stride in pairs]
    rising = all(pairs[i][1] >= extents[i + 1] for i in range(len(pairs) - 1))
    says_nothing = extents[1] == strides[1]
    return "channels_last" if rising and not says_nothing else "contiguous"
