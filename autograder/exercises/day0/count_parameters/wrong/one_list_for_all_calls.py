"""one list for all answers

Keeps its list from call to call, and empties it first.
"""


def count_parameters(layers, counts=[]):
    counts.clear()
    for layer in layers:
        kind = layer["kind"]
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (layer["in_channels"] // layer["groups"]) * height * width
            count += layer["out_channels"] if layer["bias"] else 0
        elif kind == "Linear":
            count = layer["out_features"] * (layer["in_features"] + bool(layer["bias"]))
        elif kind == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
