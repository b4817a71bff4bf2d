"""counted what does not learn

Recognises the layers by their numbers: what has a kernel has weights.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        count = 0
        if "kernel_size" in layer:
            height, width = layer["kernel_size"]
            count = (
                layer.get("in_channels", 1) // layer.get("groups", 1) * height * width * layer.get("out_channels", 1)
            )
        if "in_features" in layer:
            count = layer["in_features"] * layer["out_features"]
        if layer.get("bias"):
            count += layer.get("out_channels", 0) + layer.get("out_features", 0)
        counts.append(count + 2 * layer.get("num_features", 0))
    return counts
