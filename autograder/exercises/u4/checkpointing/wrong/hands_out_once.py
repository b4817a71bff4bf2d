"""computed again and again

Forgets each value once it has handed it out, and computes again for whoever asks once more.
"""

from itertools import count

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    before, numbers, collected = torch.get_rng_state(), count(), {}

    again = count()

    def collect(tensor):
        collected[next(again)] = tensor.detach()

    def run_again():
        nonlocal again
        again, now = count(), torch.get_rng_state()
        torch.set_rng_state(before)
        try:
            with torch.enable_grad(), saved_tensors_hooks(collect, lambda nothing: nothing):
                function(*inputs)
        finally:
            torch.set_rng_state(now)

    def unpack(number):
        if number not in collected:
            run_again()
        return collected.pop(number)

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        return function(*inputs)
