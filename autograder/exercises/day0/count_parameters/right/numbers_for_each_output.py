"""Counts what one output channel needs, then multiplies by the channels."""


def count_parameters(layers):
    counts = []
    for layer in layers:
        match layer:
            case {"kind": "Conv2d", "kernel_size": (height, width)}:
                each, outputs = layer["in_channels"] * height * width // layer["groups"], layer["out_channels"]
            case {"kind": "Linear"}:
                each, outputs = layer["in_features"], layer["out_features"]
            case {"kind": "BatchNorm2d"}:
                each, outputs = 2, layer["num_features"]
            case _:
                each, outputs = 0, 0
        counts.append((each + layer.get("bias", False)) * outputs)
    return tuple(counts)
