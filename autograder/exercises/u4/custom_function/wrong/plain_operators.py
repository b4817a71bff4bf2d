"""gradient of x

Lets autograd differentiate the rounding.
"""

import torch


class Quantize:
    """Rounding to whole steps."""

    @staticmethod
    def apply(x, step, levels):
        return step * torch.round(x / step).clamp(-levels, levels)
