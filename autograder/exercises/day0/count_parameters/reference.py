"""The reference answer of count_parameters, made from its notebook by `make notebooks`."""


def count_parameters(layers: list[dict]) -> list[int]:
    """The number of parameters of each layer."""
    counts = []
    for layer in layers:
        count = 0
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (layer["in_channels"] // layer["groups"] * height * width + layer["bias"])
        elif layer["kind"] == "Linear":
            count = layer["out_features"] * (layer["in_features"] + layer["bias"])
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts.append(count)
    return counts
