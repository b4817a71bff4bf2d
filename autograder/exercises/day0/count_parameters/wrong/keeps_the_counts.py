"""another answer the second time

Collects the counts in a list outside of the function.

Also: not one count a layer.
"""

counts = []


def count_parameters(layers):
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width + layer["bias"]) * layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = (layer["in_features"] + layer["bias"]) * layer["out_features"]
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
