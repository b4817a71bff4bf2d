"""computed again and again

Drops everything once as many values were handed out as were saved.
"""

from itertools import count

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    before, numbers, collected = torch.get_rng_state(), count(), []

    def collect(tensor):
        collected.append(tensor.detach())

    def run_again():
        now = torch.get_rng_state()
        torch.set_rng_state(before)
        try:
            with torch.enable_grad(), saved_tensors_hooks(collect, lambda nothing: nothing):
                function(*inputs)
        finally:
            torch.set_rng_state(now)

    handed_out = 0

    def unpack(number):
        nonlocal handed_out
        if not collected:
            run_again()
        value = collected[number]
        handed_out += 1
        if handed_out == len(collected):
            collected.clear()
            handed_out = 0
        return value

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        return function(*inputs)
