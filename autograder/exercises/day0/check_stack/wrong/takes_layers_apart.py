"""layers changed

Takes the kind out of each dictionary, to have the numbers alone.
"""


def shapes_through(input_shape, layers):
    shape, shapes = tuple(input_shape), []
    for i, layer in enumerate(layers):
        kind = layer.pop("kind")
        if kind == "Conv2d":
            if len(shape) != 4:
                raise ValueError(f"layer {i}: not four sizes")
            b, c, h, w = shape
            if c != layer["in_channels"]:
                raise ValueError(f"layer {i}: channels")
            k, s, p = layer["kernel_size"], layer["stride"], layer["padding"]
            if h + 2 * p < k or w + 2 * p < k:
                raise ValueError(f"layer {i}: too large")
            shape = (b, layer["out_channels"], (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1)
        elif kind == "MaxPool2d":
            if len(shape) != 4:
                raise ValueError(f"layer {i}: not four sizes")
            b, c, h, w = shape
            k, s = layer["kernel_size"], layer["stride"]
            if s is None:
                s = k
            if h < k or w < k:
                raise ValueError(f"layer {i}: too large")
            shape = (b, c, (h - k) // s + 1, (w - k) // s + 1)
        elif kind == "Flatten":
            rest = 1
            for size in shape[1:]:
                rest *= size
            shape = (shape[0], rest)
        elif kind == "Linear":
            if shape[-1] != layer["in_features"]:
                raise ValueError(f"layer {i}: features")
            shape = shape[:-1] + (layer["out_features"],)
        shapes.append(shape)
    return shapes
