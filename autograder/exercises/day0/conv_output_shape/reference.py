"""The reference answer of conv_output_shape, made from its notebook by `make notebooks`."""


def conv_output_shape(
    input_shape: tuple[int, int, int, int],
    out_channels: int,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Shape of the output of a 2-d convolution; every pair is (height, width)."""
    batch, _, *image = input_shape
    height, width = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(image, kernel_size, stride, padding, dilation, strict=True)
    )
    return batch, out_channels, height, width
