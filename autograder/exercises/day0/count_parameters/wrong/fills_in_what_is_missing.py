"""layers changed

Writes the defaults of PyTorch into dictionaries that do not say them.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind, count = layer["kind"], 0
        layer.setdefault("groups", 1)
        layer.setdefault("bias", True)
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (
                layer["in_channels"] // layer["groups"] * height * width + bool(layer["bias"])
            )
        elif kind == "Linear":
            count = layer["out_features"] * (layer["in_features"] + bool(layer["bias"]))
        elif kind == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts.append(count)
    return counts
