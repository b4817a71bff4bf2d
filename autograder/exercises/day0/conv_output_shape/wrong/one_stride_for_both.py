"""height for width

Takes the first stride for both directions, as in square convolutions.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    _, _, height, width = input_shape
    step = stride[0]
    return (
        input_shape[0],
        out_channels,
        (height + 2 * padding[0] - dilation[0] * (kernel_size[0] - 1) - 1) // step + 1,
        (width + 2 * padding[1] - dilation[1] * (kernel_size[1] - 1) - 1) // step + 1,
    )
