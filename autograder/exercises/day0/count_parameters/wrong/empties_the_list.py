"""another answer the second time

Works the list off until nothing is left.
"""


def count_parameters(layers):
    counts = []
    while layers:
        layer = layers.pop(0)
        count = 0
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width + layer["bias"]) * layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = (layer["in_features"] + layer["bias"]) * layer["out_features"]
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts.append(count)
    return counts
