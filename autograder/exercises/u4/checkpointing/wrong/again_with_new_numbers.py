"""computed again and again

For every saved value the function runs once more, and draws other random numbers each time.
"""

from itertools import count

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    numbers = count()

    def unpack(number):
        again = []
        with torch.enable_grad(), saved_tensors_hooks(again.append, lambda one: one):
            function(*inputs)
        return again[number]

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        return function(*inputs)
