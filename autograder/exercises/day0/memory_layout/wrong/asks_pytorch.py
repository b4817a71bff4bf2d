"""asked PyTorch

Makes the tensor and looks.
"""

import torch


def strides_of(shape, channels_last=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, device="meta", memory_format=layout).stride()


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))
