"""taken for an earlier layer

Keeps counts, and looks them up by everything but the groups.
"""


def count_parameters(layers):
    known, counts = {}, []
    for layer in layers:
        key = tuple((name, number) for name, number in layer.items() if name != "groups")
        if key not in known:
            known[key] = count(layer)
        counts.append(known[key])
    return counts


def count(layer):
    if layer["kind"] == "Conv2d":
        height, width = layer["kernel_size"]
        return layer["out_channels"] * (layer["in_channels"] // layer["groups"] * height * width + layer["bias"])
    if layer["kind"] == "Linear":
        return layer["out_features"] * (layer["in_features"] + layer["bias"])
    return 2 * layer["num_features"] if layer["kind"] == "BatchNorm2d" else 0
