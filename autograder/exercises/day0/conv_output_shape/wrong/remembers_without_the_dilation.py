"""an answer from before

Keeps what it worked out, and looks it up by everything but the dilation.
"""

known = {}


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    key = (input_shape, out_channels, kernel_size, stride, padding)
    if key not in known:
        directions = zip(input_shape[2:], kernel_size, stride, padding, dilation)
        image = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in directions]
        known[key] = (input_shape[0], out_channels, *image)
    return known[key]
