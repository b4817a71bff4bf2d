"""inner results kept

Holds on to the function's result as well.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks


class Slot:
    """Stands for a saved tensor."""

    __slots__ = ("tensor",)

    def __init__(self):
        self.tensor = None


def checkpoint(function, *inputs):
    """Slots in order; the second run fills them all."""
    state = torch.get_rng_state()
    slots = []

    def leave(tensor):
        slot = Slot()
        slots.append(slot)
        return slot

    def again():
        free = iter(slots)

        def fill(tensor):
            slot = next(free)
            slot.tensor = tensor.detach()
            return None

        present = torch.get_rng_state()
        torch.set_rng_state(state)
        try:
            with torch.enable_grad(), saved_tensors_hooks(fill, lambda nothing: None):
                function(*inputs)
        finally:
            torch.set_rng_state(present)

    def fetch(slot):
        if slot.tensor is None:
            again()
        return slot.tensor

    with saved_tensors_hooks(leave, fetch):
        result = function(*inputs)
    again.result = result.detach()
    return result
