"""nothing computed again

Calls the function and leaves it at that.
"""

import torch


def checkpoint(function, *inputs):
    return function(*inputs)
