"""wrong second derivative

The known trick with detach: the first derivatives are right.
"""

import torch


class Quantize:
    """Rounding to whole steps."""

    @staticmethod
    def apply(x, step, levels):
        v = x / step
        n = torch.round(v).clamp(-levels, levels)
        return step * torch.where(v.abs() <= levels, v + (n - v).detach(), n.detach())
