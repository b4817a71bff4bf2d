"""wrong shape

Keeps what it worked out, and forgets that padding and dilation decide, too.
"""

known = {}


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    key = (input_shape, kernel_size, stride)
    if key not in known:
        directions = zip(input_shape[2:], kernel_size, stride, padding, dilation)
        known[key] = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in directions]
    return (input_shape[0], out_channels, *known[key])
