"""one list for all answers

Keeps its answers by what was asked, and gives the kept list itself.
"""

_known: dict[str, list[int]] = {}


def count_parameters(layers: list[dict]) -> list[int]:
    """The number of parameters of each layer."""
    asked = repr(layers)
    if asked in _known:
        return _known[asked]
    counts = []
    for layer in layers:
        kind = layer["kind"]
        if kind == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (layer["in_channels"] // layer["groups"]) * height * width
            if layer["bias"]:
                count += layer["out_channels"]
        elif kind == "Linear":
            count = layer["in_features"] * layer["out_features"]
            if layer["bias"]:
                count += layer["out_features"]
        elif kind == "BatchNorm2d":
            count = 2 * layer["num_features"]
        else:
            count = 0
        counts.append(count)
    _known[asked] = counts
    return counts
