"""wrong shape

Caps the padding at half of the kernel, as pooling layers demand.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = []
    for i in (0, 1):
        pad = min(padding[i], dilation[i] * (kernel_size[i] - 1) // 2 + 1)
        room = input_shape[2 + i] + 2 * pad - (dilation[i] * (kernel_size[i] - 1) + 1)
        sizes.append(room // stride[i] + 1)
    return (input_shape[0], out_channels, *sizes)
