"""wrong shape

Believes that padding of half a kernel always keeps the size, but for the stride.
"""


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = []
    for n, k, s, p, d in zip(input_shape[2:], kernel_size, stride, padding, dilation):
        if p == k // 2 and d == 1:
            sizes.append(-(-n // s))
        else:
            sizes.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
    return (input_shape[0], out_channels, *sizes)
