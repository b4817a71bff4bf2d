"""another answer the second time

Takes each number out of its dictionary.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        kind, bias = layer.pop("kind"), layer.pop("bias", False)
        if kind == "Conv2d":
            height, width = layer.pop("kernel_size")
            each = layer.pop("in_channels") // layer.pop("groups") * height * width
            counts.append((each + bias) * layer.pop("out_channels"))
        elif kind == "Linear":
            counts.append((layer.pop("in_features") + bias) * layer.pop("out_features"))
        else:
            counts.append(2 * layer["num_features"] if kind == "BatchNorm2d" else 0)
    return counts
