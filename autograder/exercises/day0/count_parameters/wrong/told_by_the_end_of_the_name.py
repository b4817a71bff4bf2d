"""counted what does not learn

Whatever is called some kind of Linear counts as Linear.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind, count = layer["kind"], 0
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (
                layer["in_channels"] // layer["groups"] * height * width + bool(layer["bias"])
            )
        elif kind.lower().endswith("linear"):
            count = layer["out_features"] * (layer.get("in_features", 0) + bool(layer.get("bias")))
        elif kind == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts.append(count)
    return counts
