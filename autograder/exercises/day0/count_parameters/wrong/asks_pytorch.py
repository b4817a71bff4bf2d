"""asked PyTorch

Makes every layer and asks it.
"""

from torch import nn


def count_parameters(layers):
    counts = []
    for layer in layers:
        numbers = {key: value for key, value in layer.items() if key != "kind"}
        made = getattr(nn, layer["kind"])(**numbers)
        counts.append(sum(parameter.numel() for parameter in made.parameters()))
    return counts
