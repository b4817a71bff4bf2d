"""layers without parameters

Leaves out the layers that have nothing to learn.
"""


def count_parameters(layers):
    counts = []
    for layer in layers:
        match layer:
            case {"kind": "Conv2d", "kernel_size": (height, width)}:
                each = layer["in_channels"] // layer["groups"] * height * width + layer["bias"]
                counts.append(each * layer["out_channels"])
            case {"kind": "Linear"}:
                counts.append((layer["in_features"] + layer["bias"]) * layer["out_features"])
            case {"kind": "BatchNorm2d"}:
                counts.append(2 * layer["num_features"])
    return counts
