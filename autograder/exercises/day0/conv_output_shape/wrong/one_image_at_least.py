"""wrong shape

An empty batch becomes a batch of one.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    batch, _, height, width = input_shape

    def places(size, kernel, step, pad, dil):
        return (size + 2 * pad - dil * (kernel - 1) - 1) // step + 1

    rows, columns = (places(*five) for five in zip((height, width), kernel_size, stride, padding, dilation))
    return (batch or 1, out_channels, rows, columns)
