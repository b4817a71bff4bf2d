"""input channels kept

Believes that a convolution works on each channel for itself.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    shape = list(input_shape)
    for axis in (0, 1):
        span = dilation[axis] * (kernel_size[axis] - 1) + 1
        shape[2 + axis] = (shape[2 + axis] + 2 * padding[axis] - span) // stride[axis] + 1
    return tuple(shape)
