"""stride before room

Believes that the stride shrinks the input before the kernel moves over it.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    batch, channels, height, width = input_shape
    sizes = []
    for n, k, s, p, d in zip((height, width), kernel_size, stride, padding, dilation):
        sizes.append((n + 2 * p) // s - d * (k - 1))
    return (batch, out_channels, *sizes)
