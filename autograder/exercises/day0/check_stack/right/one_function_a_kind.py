"""A rule for each kind of layer: it gives the new shape, or `None`."""

from math import prod


def window(shape, layer):
    kernel, step, padding = layer["kernel_size"], layer["stride"] or layer["kernel_size"], layer.get("padding", 0)
    room = [size + 2 * padding - kernel for size in shape[2:]]
    if len(shape) != 4 or min(room) < 0 or layer.get("in_channels", shape[1]) != shape[1]:
        return None
    return (shape[0], layer.get("out_channels", shape[1]), *(size // step + 1 for size in room))


RULES = {
    "Conv2d": window,
    "MaxPool2d": window,
    "ReLU": lambda shape, layer: shape,
    "Flatten": lambda shape, layer: (shape[0], prod(shape[1:])),
    "Linear": lambda shape, layer: (*shape[:-1], layer["out_features"]) if shape[-1] == layer["in_features"] else None,
}


def shapes_through(input_shape, layers):
    shapes = [tuple(input_shape)]
    for position, layer in enumerate(layers):
        shape = RULES[layer["kind"]](shapes[-1], layer)
        if shape is None:
            raise ValueError(f"layer {position}: {layer['kind']} does not take {shapes[-1]}")
        shapes.append(shape)
    return shapes[1:]
