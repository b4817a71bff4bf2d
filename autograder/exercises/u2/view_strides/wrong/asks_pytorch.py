"""asked PyTorch

Makes the tensor on the meta device and views it.
"""

import torch


def view(sizes, strides, wanted):
    try:
        found = torch.empty_strided(sizes, strides, device="meta").view(wanted)
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    return tuple(found.shape), found.stride()
