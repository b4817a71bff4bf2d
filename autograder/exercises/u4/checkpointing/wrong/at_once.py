"""computed again too early

Runs the function twice in a row.
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

    def unpack(number):
        if not collected:
            run_again()
        return collected[number]

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        result = function(*inputs)
    run_again()
    return result
    ### END SOLUTION
