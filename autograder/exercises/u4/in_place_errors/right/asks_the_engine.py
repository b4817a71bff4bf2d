"""Lets PyTorch itself raise, in a run of its own, and looks for the step afterwards."""

import torch
from torch.autograd.graph import saved_tensors_hooks


class Watched:
    def __init__(self, tensor):
        self.tensor, self.seen = tensor, [(tensor._version, tensor.detach().clone())]
        self.read = False

    def look(self):
        self.seen.append((self.tensor._version, self.tensor.detach().clone()))

    def first(self, differs):
        return next((n for n, one in enumerate(self.seen[1:]) if differs(self.seen[0], one)), None)


def equal(one, other):
    if one is None or other is None:
        return one is other
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def diagnose(steps, leaves):
    def run(after=lambda: None):
        values = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
        asking = [value for value in values if value.requires_grad]
        for step in steps:
            values.append(step(values))
            after()
        return values[-1], asking

    generator = torch.random.get_rng_state()
    number = 0

    def count():
        nonlocal number
        number += 1

    try:
        loss, asking = run(count)
    except RuntimeError:
        return "raises when written", number
    try:
        found = torch.autograd.grad(loss, asking, allow_unused=True)
        raises = False
    except RuntimeError:
        raises = True

    watched, started = [], []

    def pack(tensor):
        watched.append(Watched(tensor))
        started.append(number)
        return watched[-1]

    def unpack(one):
        one.read = True
        return one.seen[0][1]

    def look():
        nonlocal number
        for one in watched:
            one.look()
        number += 1

    number = 0
    torch.random.set_rng_state(generator)
    with saved_tensors_hooks(pack, unpack):
        loss, asking = run(look)
    right = torch.autograd.grad(loss, asking, allow_unused=True)

    def earliest(differs):
        steps_found = [
            start + one.first(differs)
            for start, one in zip(started, watched)
            if one.read and one.first(differs) is not None
        ]
        return min(steps_found)

    if raises:
        return "raises in backward", earliest(lambda one, other: one[0] != other[0])
    if all(equal(one, other) for one, other in zip(found, right)):
        return "fine", None
    return "silent", earliest(lambda one, other: not equal(one[1], other[1]))
