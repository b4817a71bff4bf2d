"""asked PyTorch

Makes the tensors on the meta device, and looks for the dimension itself.
"""

import torch


def broadcast(operands):
    rank = max(len(sizes) for sizes, _ in operands)
    for dim in range(-1, -rank - 1, -1):
        if len({sizes[dim] for sizes, _ in operands if -dim <= len(sizes)} - {1}) > 1:
            raise ValueError(f"dimension {dim}: does not go together")
    found = torch.broadcast_tensors(*(torch.empty_strided(*one, device="meta") for one in operands))
    return tuple(found[0].shape), [one.stride() for one in found]
