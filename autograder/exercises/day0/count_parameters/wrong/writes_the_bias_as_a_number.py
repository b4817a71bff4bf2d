"""layers changed

Makes a number of each `bias`, in the dictionary itself.
"""


def _count(layer):
    kind = layer["kind"]
    if kind == "Conv2d":
        height, width = layer["kernel_size"]
        return layer["out_channels"] * (layer["in_channels"] // layer["groups"] * height * width + layer["bias"])
    if kind == "Linear":
        return layer["out_features"] * (layer["in_features"] + layer["bias"])
    return 2 * layer["num_features"] if kind == "BatchNorm2d" else 0


def count_parameters(layers):
    for layer in layers:
        if "bias" in layer:
            layer["bias"] = int(layer["bias"])
    return [_count(layer) for layer in layers]
