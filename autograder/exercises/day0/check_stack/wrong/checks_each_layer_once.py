"""did not notice

A layer equal to one that has been met fits again: its channels are looked at the first time only.
"""


def shapes_through(input_shape, layers):
    shape, shapes, met = tuple(input_shape), [], []
    for position, layer in enumerate(layers):
        kind = layer["kind"]
        if kind in ("Conv2d", "MaxPool2d"):
            if len(shape) != 4:
                raise ValueError(f"layer {position}: needs four sizes")
            kernel = layer["kernel_size"]
            if kind == "Conv2d":
                if layer not in met and shape[1] != layer["in_channels"]:
                    raise ValueError(f"layer {position}: channels")
                channels, stride, padding = layer["out_channels"], layer["stride"], layer["padding"]
            else:
                channels, padding = shape[1], 0
                stride = kernel if layer["stride"] is None else layer["stride"]
            height, width = ((size + 2 * padding - kernel) // stride + 1 for size in shape[2:])
            if height < 1 or width < 1:
                raise ValueError(f"layer {position}: window too large")
            shape = (shape[0], channels, height, width)
        elif kind == "Flatten":
            rest = 1
            for size in shape[1:]:
                rest *= size
            shape = (shape[0], rest)
        elif kind == "Linear":
            if shape[-1] != layer["in_features"]:
                raise ValueError(f"layer {position}: features")
            shape = (*shape[:-1], layer["out_features"])
        met.append(layer)
        shapes.append(shape)
    return shapes
