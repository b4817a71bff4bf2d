"""asked PyTorch

Makes the layer and looks at what comes out.
"""

import torch
from torch import nn


def conv_output_shape(input_shape, out_channels, kernel_size, stride, padding, dilation):
    layer = nn.Conv2d(input_shape[1], out_channels, kernel_size, stride, padding, dilation, device="meta")
    return tuple(layer(torch.empty(input_shape, device="meta")).shape)
