"""groups ignored

Uses the formula of an ordinary convolution.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["in_channels"] * height * width * layer["out_channels"]
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
