"""counted what does not learn

A batch norm of one or three dimensions begins like the one that counts: `kind.startswith("BatchNorm")`.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind = layer["kind"]
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (layer["in_channels"] // layer["groups"]) * height * width
            if layer["bias"]:
                count += layer["out_channels"]
        elif kind == "Linear":
            count = layer["in_features"] * layer["out_features"]
            if layer["bias"]:
                count += layer["out_features"]
        elif kind.startswith("BatchNorm"):
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
