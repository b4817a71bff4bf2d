"""Keeps each answer, and looks it up by all arguments."""

from functools import cache


@cache
def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    directions = zip(input_shape[2:], kernel_size, stride, padding, dilation)
    image = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in directions]
    return (input_shape[0], out_channels, *image)
