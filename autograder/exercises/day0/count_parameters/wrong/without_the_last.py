"""not one count a layer

Believes that the last layer is the output, and has nothing of its own.
"""


def count_parameters(layers):
    counts = []
    for layer in layers[:-1]:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width + layer["bias"]) * layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = (layer["in_features"] + layer["bias"]) * layer["out_features"]
        else:
            count = 2 * layer["num_features"] if layer["kind"] == "BatchNorm2d" else 0
        counts.append(count)
    return counts
