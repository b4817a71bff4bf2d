"""Runs twice, and puts the generator back before the second run."""

import torch
from torch.autograd.graph import saved_tensors_hooks


def diagnose(steps, leaves):
    """What happens to a program that writes in place, and the step to blame."""
    saved = []

    def same(one, other):
        return one is other or torch.allclose(one, other, 0.0, 0.0, True)  # two NaN are the same

    def keep(tensor):
        saved.append([tensor, tensor._version, tensor.detach().clone(), False, None, None])
        return saved[-1]

    def original(entry):
        entry[3] = True
        return entry[0]

    def start():
        return [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]

    generator = torch.get_rng_state()
    values = start()
    asking = [value for value in values if value.requires_grad]
    with saved_tensors_hooks(keep, original):
        for number, step in enumerate(steps):
            try:
                values.append(step(values))
            except RuntimeError:
                return "raises when written", number
            for entry in saved:
                if entry[4] is None and entry[0]._version != entry[1]:
                    entry[4] = number
                if entry[5] is None and not same(entry[0].detach(), entry[2]):
                    entry[5] = number
    found = torch.autograd.grad(values[-1], asking, allow_unused=True)
    raised = [entry[4] for entry in saved if entry[3] and entry[4] is not None]
    if raised:
        return "raises in backward", min(raised)
    torch.set_rng_state(generator)
    again = start()
    asking = [value for value in again if value.requires_grad]
    with saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda tensor: tensor):
        for step in steps:
            again.append(step(again))
    right = torch.autograd.grad(again[-1], asking, allow_unused=True)
    if all(same(one, other) for one, other in zip(found, right, strict=True)):
        return "fine", None
    return "silent", min(entry[5] for entry in saved if entry[3] and entry[5] is not None)
