"""wrong second derivative

Believes that nothing of the rounding is derived, and detaches the quotient in the backward pass.
"""

import torch


class Quantize(torch.autograd.Function):
    """Rounding to whole steps, with gradients that let both the numbers and the step learn."""

    generate_vmap_rule = True  # vmap may run these methods on batched tensors.

    @staticmethod
    def forward(x, step, levels):
        return torch.round(x / step).clamp(-levels, levels) * step

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, ctx.levels = inputs
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.saved_tensors
        v = (x / step).detach()
        n = torch.round(v).clamp(-ctx.levels, ctx.levels)
        inside = v.abs() <= ctx.levels
        # Divided again where it counts, so that nothing infinite is derived elsewhere.
        ratio = torch.where(inside, x, torch.zeros_like(x)) / torch.where(inside, step, torch.ones_like(step))
        none = torch.zeros_like(gradient)
        ratio = ratio.detach()  # Rounding is not derived.
        return torch.where(inside, gradient, none), gradient * (n - torch.where(inside, ratio, none)), None
