"""asked PyTorch

Runs the layers on an empty tensor.
"""

import torch
from torch import nn


def shapes_through(input_shape, layers):
    value, shapes = torch.zeros(input_shape), []
    for position, layer in enumerate(layers):
        numbers = {key: number for key, number in layer.items() if key != "kind"}
        try:
            if layer["kind"] in ("Conv2d", "MaxPool2d") and value.dim() != 4:
                raise RuntimeError("flat")
            value = getattr(nn, layer["kind"])(**numbers)(value)
        except RuntimeError as error:
            raise ValueError(f"layer {position}: {error}")
        shapes.append(tuple(value.shape))
    return shapes
