"""linear flattens

Believes that a linear layer takes everything but the batch.
"""

from math import prod


def shapes_through(input_shape, layers):
    shape, shapes = tuple(input_shape), []
    for position, layer in enumerate(layers):
        match layer["kind"]:
            case "Conv2d" | "MaxPool2d":
                if len(shape) != 4 or layer.get("in_channels", shape[1]) != shape[1]:
                    raise ValueError(f"layer {position}: {shape} does not fit")
                step = layer["stride"] or layer["kernel_size"]
                room = [size + 2 * layer.get("padding", 0) - layer["kernel_size"] for size in shape[2:]]
                if min(room) < 0:
                    raise ValueError(f"layer {position}: too small")
                shape = (shape[0], layer.get("out_channels", shape[1]), *(size // step + 1 for size in room))
            case "Flatten":
                shape = (shape[0], prod(shape[1:]))
            case "Linear":
                if prod(shape[1:]) != layer["in_features"]:
                    raise ValueError(f"layer {position}: {prod(shape[1:])} features come in")
                shape = (shape[0], layer["out_features"])
        shapes.append(shape)
    return shapes
