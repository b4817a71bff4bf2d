"""wrong outcome

Gradients that differ by little are the same.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks


class Saved:
    """What was saved: the tensor, its version and its numbers then, and when each changed."""

    def __init__(self, tensor):
        self.tensor, self.copy, self.version = tensor, tensor.detach().clone(), tensor._version
        self.raised = self.changed = None
        self.read = False

    def look(self, step):
        if self.raised is None and self.tensor._version != self.version:
            self.raised = step
        if self.changed is None and not same(self.tensor.detach(), self.copy):
            self.changed = step


def same(one, other):
    if one is None or other is None:
        return one is other
    return bool(((one == other) | ((one != one) & (other != other))).all())


def diagnose(steps: list, leaves: list[torch.Tensor]) -> tuple[str, int | None]:
    """What happens to a program that writes in place, and the step to blame."""
    values = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
    inputs = [value for value in values if value.requires_grad]
    kept, honest = [], False

    def pack(tensor):
        kept.append(Saved(tensor))
        return kept[-1]

    def unpack(one):
        one.read = True
        return one.copy if honest else one.tensor

    with saved_tensors_hooks(pack, unpack):
        for number, step in enumerate(steps):
            try:
                values.append(step(values))
            except RuntimeError:
                return "raises when written", number
            for one in kept:
                one.look(number)
    loss = values[-1]
    found = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
    honest = True
    wanted = torch.autograd.grad(loss, inputs, retain_graph=True, allow_unused=True)
    read = [one for one in kept if one.read]
    raised = [one.raised for one in read if one.raised is not None]
    if raised:
        return "raises in backward", min(raised)
    if not all(
        a is b is None or (a is not None and torch.allclose(a, b, equal_nan=True)) for a, b in zip(found, wanted)
    ):
        return "silent", min(one.changed for one in read if one.changed is not None)
    return "fine", None
