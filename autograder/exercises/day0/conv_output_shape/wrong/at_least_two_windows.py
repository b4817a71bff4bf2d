"""wrong shape

Believes that a window that fits exactly does not fit.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = []
    for n, k, s, p, d in zip(input_shape[2:], kernel_size, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        sizes.append(room // s + 1 if room > 0 else 0)
    return (input_shape[0], out_channels, *sizes)
