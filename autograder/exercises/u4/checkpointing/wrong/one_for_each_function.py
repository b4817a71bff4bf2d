"""wrong gradients

Keeps one record for each function, so that a layer used twice computes both calls from the first one's inputs.
"""

import torch
from torch.autograd.graph import saved_tensors_hooks


class Recomputed:
    """What one call has to compute again."""

    def __init__(self, function, inputs):
        self.function, self.inputs = function, inputs
        self.state = torch.get_rng_state()
        self.saved, self.values = 0, []

    def pack(self, tensor):
        self.saved += 1
        return self.saved - 1

    def unpack(self, number):
        if not self.values:
            self.run()
        return self.values[number]

    def collect(self, tensor):
        self.values.append(tensor.detach())
        return tensor

    def run(self):
        present = torch.get_rng_state()
        torch.set_rng_state(self.state)
        try:
            with torch.enable_grad(), saved_tensors_hooks(self.collect, lambda tensor: tensor):
                self.function(*self.inputs)
        finally:
            torch.set_rng_state(present)


RECORDS = {}


def checkpoint(function, *inputs):
    again = RECORDS.setdefault(id(function), Recomputed(function, inputs))
    again.saved = 0
    with saved_tensors_hooks(again.pack, again.unpack):
        return function(*inputs)
