"""Counts the windows by sliding one over the padded input."""


def windows(size, kernel, stride, padding, dilation):
    count, start = 0, -padding
    while start + dilation * (kernel - 1) < size + padding:
        count += 1
        start += stride
    return count


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    height, width = (windows(*numbers) for numbers in zip(input_shape[2:], kernel_size, stride, padding, dilation))
    return input_shape[0], out_channels, height, width
