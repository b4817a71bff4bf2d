"""not one count a layer

Collects the counts by layer, so that equal layers count once.
"""


def count_parameters(layers):
    counts = {}
    for layer in layers:
        count = 0
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width + layer["bias"]) * layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = (layer["in_features"] + layer["bias"]) * layer["out_features"]
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts[str(layer)] = count
    return list(counts.values())
