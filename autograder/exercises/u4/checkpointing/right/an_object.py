"""Hooks as methods of an object that forgets what it has handed out."""

import torch


class Recomputation:
    def __init__(self, function, inputs):
        self.function, self.inputs = function, inputs
        self.state = torch.random.get_rng_state()
        self.length, self.values = 0, {}

    def pack(self, tensor):
        self.length += 1
        return self.length - 1

    def unpack(self, place):
        if place not in self.values:
            found = []
            with torch.random.fork_rng(devices=[]):
                torch.random.set_rng_state(self.state)
                with torch.set_grad_enabled(True):
                    with torch.autograd.graph.saved_tensors_hooks(
                        lambda tensor: found.append(tensor.detach()), lambda none: none
                    ):
                        self.function(*self.inputs)
            self.values = dict(enumerate(found))
        return self.values[place]


def checkpoint(function, *inputs):
    one = Recomputation(function, inputs)
    with torch.autograd.graph.saved_tensors_hooks(one.pack, one.unpack):
        return function(*inputs)
