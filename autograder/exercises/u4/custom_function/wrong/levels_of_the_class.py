"""levels of another call

Keeps the levels on the class, where the next call overwrites them before this one goes backward.
"""

import torch


class Quantize(torch.autograd.Function):
    """The gradient of the step is put together from n and v by torch.where."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, step, levels):
        return step * torch.round(x / step).clamp(-levels, levels)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, levels = inputs
        Quantize.levels = levels
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, gradient):
        x, step = ctx.saved_tensors
        v = x / step
        n = torch.round(v).clamp(-Quantize.levels, Quantize.levels).detach()
        inside = v.abs() <= Quantize.levels
        return (
            torch.where(inside, gradient, torch.zeros_like(gradient)),
            gradient * (n - torch.where(inside, v, torch.zeros_like(v))),
            None,
        )
