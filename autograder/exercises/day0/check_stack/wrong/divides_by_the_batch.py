"""failed on a hidden case

Divides the number of all elements by the batch, which may be empty.
"""


def _window(shape, kernel, stride, padding):
    sizes = tuple(len(range(kernel - 1, size + 2 * padding, stride)) for size in shape[2:])
    assert min(sizes) > 0, "the window is too large"
    return sizes


def _conv(shape, layer):
    assert len(shape) == 4, "four sizes are needed"
    assert shape[1] == layer["in_channels"], "other channels"
    return (shape[0], layer["out_channels"], *_window(shape, layer["kernel_size"], layer["stride"], layer["padding"]))


def _pool(shape, layer):
    assert len(shape) == 4, "four sizes are needed"
    kernel = layer["kernel_size"]
    stride = kernel if layer["stride"] is None else layer["stride"]
    return (*shape[:2], *_window(shape, kernel, stride, 0))


def _flatten(shape, layer):
    rest = 1
    for size in shape:
        rest *= size
    return (shape[0], rest // shape[0])


def _linear(shape, layer):
    assert shape[-1] == layer["in_features"], "other features"
    return (*shape[:-1], layer["out_features"])


KINDS = {
    "Conv2d": _conv,
    "MaxPool2d": _pool,
    "Flatten": _flatten,
    "Linear": _linear,
    "ReLU": lambda shape, layer: shape,
}


def shapes_through(input_shape, layers):
    shapes = [tuple(input_shape)]
    for number, layer in enumerate(layers):
        try:
            shapes.append(KINDS[layer["kind"]](shapes[-1], layer))
        except AssertionError as error:
            raise ValueError(f"layer {number}: {error}") from None
    return shapes[1:]
