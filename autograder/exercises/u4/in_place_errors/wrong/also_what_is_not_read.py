"""wrong step

Blames the first step that raised the version of any saved value, also of one that backward never reads.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks


def same(one, other):
    if one is None or other is None:
        return one is other
    return torch.equal(torch.isnan(one), torch.isnan(other)) and torch.equal(
        torch.nan_to_num(one, nan=0.5), torch.nan_to_num(other, nan=0.5)
    )


class Saved:
    def __init__(self, tensor):
        self.tensor, self.copy, self.version = tensor, tensor.detach().clone(), tensor._version
        self.raised = self.changed = None

    def look(self, number):
        if self.raised is None and self.tensor._version != self.version:
            self.raised = number
        if self.changed is None and not same(self.tensor.detach(), self.copy):
            self.changed = number


def diagnose(steps, leaves):
    """Every saved value is an object that notes which step spoilt it."""
    values = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
    own = [value for value in values if value.requires_grad]
    kept, read, honest = [], [], True

    def pack(tensor):
        kept.append(Saved(tensor))
        return kept[-1]

    def unpack(saved):
        read.append(saved)
        return saved.copy if honest else saved.tensor

    with saved_tensors_hooks(pack, unpack):
        for number, step in enumerate(steps):
            try:
                values.append(step(values))
            except RuntimeError:
                return "raises when written", number
            for saved in kept:
                saved.look(number)
        right = torch.autograd.grad(values[-1], own, retain_graph=True, allow_unused=True)
        honest = False
        real = torch.autograd.grad(values[-1], own, retain_graph=True, allow_unused=True)
    raised = [
        saved.raised
        for saved in (kept if any(one.raised is not None for one in read) else [])
        if saved.raised is not None
    ]
    if raised:
        return "raises in backward", min(raised)
    if not all(same(one, other) for one, other in zip(right, real)):
        return "silent", min(saved.changed for saved in read if saved.changed is not None)
    return "fine", None
