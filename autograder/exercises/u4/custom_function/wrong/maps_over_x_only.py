"""wrong rows

Has a rule of its own for vmap, which takes it that only x is mapped over, along its first dimension.
"""

import torch


class Quantize(torch.autograd.Function):
    """Rounding to whole steps, with gradients that let both the numbers and the step learn."""

    @staticmethod
    def forward(x, step, levels):
        return step * torch.round(x / step).clamp(-levels, levels)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.levels = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.saved_tensors
        v = x / step
        n = torch.round(v).clamp(-ctx.levels, ctx.levels)
        inside = v.abs() <= ctx.levels
        return gradient * inside, gradient * torch.where(inside, n - v, n), None

    @staticmethod
    def vmap(info, in_dims, x, step, levels):
        return Quantize.apply(x, step, levels), 0
