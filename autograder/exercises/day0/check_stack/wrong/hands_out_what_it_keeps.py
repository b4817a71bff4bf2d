"""one list for all answers

Keeps the shapes, and gives the very list that it keeps to whoever asks again.
"""

known = {}


def shapes_through(input_shape, layers):
    key = (input_shape, tuple(tuple(layer.items()) for layer in layers))
    if key not in known:
        known[key] = work_out(input_shape, layers)
    return known[key]


def work_out(input_shape, layers):
    shape, shapes = tuple(input_shape), []
    for position, layer in enumerate(layers):
        kind = layer["kind"]
        if kind in ("Conv2d", "MaxPool2d"):
            if len(shape) != 4:
                raise ValueError(f"layer {position}: {kind} takes four sizes, not {shape}")
            if kind == "Conv2d" and shape[1] != layer["in_channels"]:
                raise ValueError(f"layer {position}: takes {layer['in_channels']} channels, not {shape[1]}")
            stride = layer["stride"] or layer["kernel_size"]
            room = [size + 2 * layer.get("padding", 0) - layer["kernel_size"] for size in shape[2:]]
            if min(room) < 0:
                raise ValueError(f"layer {position}: its window is larger than {shape[2:]}")
            shape = (shape[0], layer.get("out_channels", shape[1]), *(size // stride + 1 for size in room))
        elif kind == "Flatten":
            features = 1
            for size in shape[1:]:
                features *= size
            shape = (shape[0], features)
        elif kind == "Linear":
            if shape[-1] != layer["in_features"]:
                raise ValueError(f"layer {position}: takes {layer['in_features']} features, not {shape[-1]}")
            shape = (*shape[:-1], layer["out_features"])
        shapes.append(shape)
    return shapes
