"""Strides by recursion over the faster dimensions; channels last is a permuted contiguous tensor."""

from math import prod
from operator import mul


def contiguous(shape):
    return (prod(shape[1:]), *contiguous(shape[1:])) if shape else ()


def strides_of(shape, channels_last=False):
    if not channels_last:
        return contiguous(shape)
    batch, height, width, channels = contiguous((shape[0], *shape[2:], shape[1]))
    return batch, channels, height, width


def position(index, strides):
    return sum(map(mul, index, strides))
