"""not noticed

Keeps the tensors as attributes of the context.
"""

import torch


class Quantize(torch.autograd.Function):
    """Rounding to whole steps, with gradients that let both the numbers and the step learn."""

    generate_vmap_rule = True  # vmap may run these methods on batched tensors.

    @staticmethod
    def forward(x, step, levels):
        return step * torch.round(x / step).clamp(-levels, levels)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x, ctx.step, ctx.levels = inputs

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.x, ctx.step
        v = x / step
        n = torch.round(v).clamp(-ctx.levels, ctx.levels)
        inside = v.abs() <= ctx.levels
        return gradient * inside, gradient * torch.where(inside, n - v, n), None
        ### END SOLUTION
