"""counted what does not learn

Recognises a batch norm by its `num_features`.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = (layer["in_channels"] // layer["groups"] * height * width + layer["bias"]) * layer["out_channels"]
        elif layer["kind"] == "Linear":
            count = (layer["in_features"] + layer["bias"]) * layer["out_features"]
        elif "num_features" in layer:
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    return counts
