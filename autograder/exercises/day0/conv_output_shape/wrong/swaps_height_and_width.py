"""height and width swapped

Takes pairs for (width, height), as image libraries do, but the input shape for what it is.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    def size(n, axis):
        return (n + 2 * padding[axis] - dilation[axis] * (kernel_size[axis] - 1) - 1) // stride[axis] + 1

    return input_shape[0], out_channels, size(input_shape[3], 1), size(input_shape[2], 0)
