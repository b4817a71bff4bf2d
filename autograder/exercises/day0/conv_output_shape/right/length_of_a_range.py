"""The window's possible starts are a range; its length is the size."""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    shape = [input_shape[0], out_channels]
    for axis, size in enumerate(input_shape[2:]):
        last_start = size + 2 * padding[axis] - dilation[axis] * (kernel_size[axis] - 1)
        shape.append(len(range(0, last_start, stride[axis])))
    return shape
