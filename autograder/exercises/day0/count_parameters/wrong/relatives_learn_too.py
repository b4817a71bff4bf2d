"""counted what does not learn

Takes families for kinds: every convolution, every normalisation.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind = layer["kind"]
        if kind in ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d"):
            height, width = layer["kernel_size"]
            each = layer["in_channels"] // layer["groups"] * height * width + layer["bias"]
            counts.append(layer["out_channels"] * each)
        elif kind in ("Linear", "LazyLinear"):
            counts.append(layer["out_features"] * (layer["in_features"] + layer["bias"]))
        elif kind in ("BatchNorm2d", "SyncBatchNorm"):
            counts.append(2 * layer["num_features"])
        else:
            counts.append(0)
    return counts
