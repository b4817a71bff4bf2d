"""wrong shape

Adds the padding once and leaves the dilation out: two mistakes in one formula.

Also: padding on one side; dilation ignored.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = ((n + p - k) // s + 1 for n, k, s, p in zip(input_shape[2:], kernel_size, stride, padding))
    return (input_shape[0], out_channels, *sizes)
