"""no setup_context

One forward method that gets the context, as before PyTorch 2.0.
"""

import torch


class Quantize(torch.autograd.Function):
    """Rounding to whole steps, with gradients that let both the numbers and the step learn."""

    generate_vmap_rule = True  # vmap may run these methods on batched tensors.

    @staticmethod
    def forward(ctx, x, step, levels):
        ctx.levels = levels
        ctx.save_for_backward(x, step)
        return step * torch.round(x / step).clamp(-levels, levels)

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.saved_tensors
        v = x / step
        n = torch.round(v).clamp(-ctx.levels, ctx.levels)
        inside = v.abs() <= ctx.levels
        return gradient * inside, gradient * torch.where(inside, n - v, n), None
        ### END SOLUTION
