"""A formula for each kind, in a table; the shape of the weight is written down and multiplied out."""

from math import prod


def shapes(
    kind,
    in_channels=0,
    out_channels=0,
    kernel_size=(),
    groups=1,
    bias=False,
    in_features=0,
    out_features=0,
    num_features=0,
    **others,
):
    if kind == "Conv2d":
        yield (out_channels, in_channels // groups, *kernel_size)
        yield (out_channels * bias,)
    elif kind == "Linear":
        yield (out_features, in_features)
        yield (out_features * bias,)
    elif kind == "BatchNorm2d":
        yield (num_features,)
        yield (num_features,)


def count_parameters(layers):
    return [sum(map(prod, shapes(**layer))) for layer in layers]
