"""one number for all

Answers with the size of the whole network.
"""


def count_parameters(layers):
    total = 0
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            total += layer["in_channels"] // layer["groups"] * height * width * layer["out_channels"]
            total += layer["out_channels"] * layer["bias"]
        elif layer["kind"] == "Linear":
            total += (layer["in_features"] + layer["bias"]) * layer["out_features"]
        elif layer["kind"] == "BatchNorm2d":
            total += 2 * layer["num_features"]
    return total
