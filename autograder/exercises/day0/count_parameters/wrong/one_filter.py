"""one filter only

Counts one filter for the whole layer.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["in_channels"] // layer["groups"] * height * width
            if layer["bias"]:
                count += layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = layer["in_features"] * layer["out_features"]
            if layer["bias"]:
                count += layer["out_features"]
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
