"""wrong count of a Linear

A layer that stands in the list twice counts once: its second count is 0.
"""


def count_parameters(layers):
    seen, counts = [], []
    for layer in layers:
        if any(layer is other for other in seen):
            counts.append(0)
            continue
        seen.append(layer)
        kind, count = layer["kind"], 0
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
