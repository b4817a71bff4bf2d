"""bias counted once

Adds the bias as one number.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width) * layer["out_channels"] + layer["bias"]
        elif layer["kind"] == "Linear":
            count = layer["in_features"] * layer["out_features"] + layer["bias"]
        else:
            count = 2 * layer["num_features"] if layer["kind"] == "BatchNorm2d" else 0
        counts.append(count)
    return counts
