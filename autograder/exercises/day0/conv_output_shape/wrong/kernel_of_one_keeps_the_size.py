"""kernel of one left alone

Believes that a kernel of 1 changes no size.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = []
    for n, k, s, p, d in zip(input_shape[2:], kernel_size, stride, padding, dilation):
        sizes.append(n if k == 1 else (n + 2 * p - d * (k - 1) - 1) // s + 1)
    return (input_shape[0], out_channels, *sizes)
