"""wrong count of a Conv2d

Takes a convolution with as many groups as input channels for one with one filter for each of them.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind = layer["kind"]
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = (
                (layer["in_channels"] if layer["groups"] == layer["in_channels"] > 1 else layer["out_channels"])
                * (layer["in_channels"] // layer["groups"])
                * height
                * width
            )
            count += layer["out_channels"] if layer["bias"] else 0
        elif kind == "Linear":
            count = layer["out_features"] * (layer["in_features"] + bool(layer["bias"]))
        elif kind == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
