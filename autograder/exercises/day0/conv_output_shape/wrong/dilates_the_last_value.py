"""one gap too many

Multiplies the kernel by the dilation.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = []
    for n, k, s, p, d in zip(input_shape[2:], kernel_size, stride, padding, dilation):
        sizes.append((n + 2 * p - d * k) // s + 1)
    return (input_shape[0], out_channels, *sizes)
