"""asked PyTorch

Makes the tensors and asks for their keys.
"""

import torch


def kernels(tensors, blocks):
    keys = torch._C._dispatch_keys(torch.ones(2, device=tensors[0]["device"]))
    return [keys.highestPriorityTypeId().name, "ADInplaceOrView", "CPU"]
