"""bias for each input

Adds the bias to what comes in.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["in_channels"] // layer["groups"] * height * width * layer["out_channels"]
            if layer["bias"]:
                count += layer["in_channels"]
        elif layer["kind"] == "Linear":
            count = layer["in_features"] * layer["out_features"]
            if layer["bias"]:
                count += layer["in_features"]
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
