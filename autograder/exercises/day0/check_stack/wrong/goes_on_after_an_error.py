"""wrong position

Raises in the end, for the last layer that did not fit.
"""


def shapes_through(input_shape, layers):
    shape, shapes, late = tuple(input_shape), [], None
    for position, layer in enumerate(layers):
        kind = layer["kind"]
        if kind in ("Conv2d", "MaxPool2d"):
            if len(shape) != 4:
                raise ValueError(f"layer {position}: {kind} needs four sizes, got {shape}")
            if layer.get("in_channels", shape[1]) != shape[1]:
                raise ValueError(f"layer {position}: {shape[1]} channels come in")
            stride = layer["stride"] or layer["kernel_size"]
            kernel, padding = layer["kernel_size"], layer.get("padding", 0)
            height, width = ((size + 2 * padding - kernel) // stride + 1 for size in shape[2:])
            if height < 1 or width < 1:
                raise ValueError(f"layer {position}: nothing is left")
            shape = (shape[0], layer.get("out_channels", shape[1]), height, width)
        elif kind == "Flatten":
            merged = 1
            for size in shape[1:]:
                merged *= size
            shape = (shape[0], merged)
        elif kind == "Linear":
            if shape[-1] != layer["in_features"]:
                late = f"layer {position}: {shape} comes in"
            shape = (*shape[:-1], layer["out_features"])
        shapes.append(shape)
    if late:
        raise ValueError(late)
    return shapes
