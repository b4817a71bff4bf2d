"""wrong values

Limits x between -levels * step and levels * step before it divides: with a negative step the two limits are exchanged.
"""

import torch


class Quantize(torch.autograd.Function):
    """The gradient of the step is put together from n and v by torch.where."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, step, levels):
        return step * torch.round(torch.minimum(torch.maximum(x, -levels * step), levels * step) / step)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, levels = inputs
        ctx.levels = levels
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.saved_tensors
        v = x / step
        n = torch.round(v).clamp(-ctx.levels, ctx.levels).detach()
        inside = v.abs() <= ctx.levels
        return (
            torch.where(inside, gradient, torch.zeros_like(gradient)),
            gradient * (n - torch.where(inside, v, torch.zeros_like(v))),
            None,
        )
