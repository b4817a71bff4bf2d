"""drew from a stream of its own

Draws a number to tell its runs apart.
"""

from itertools import count

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    torch.rand(1)
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

    def unpack(number):
        if not collected:
            run_again()
        return collected[number]

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        return function(*inputs)
    ### END SOLUTION
