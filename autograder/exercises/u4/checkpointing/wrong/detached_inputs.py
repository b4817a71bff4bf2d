"""inputs forgotten

Computes again from inputs that lead nowhere, and does not hand their gradients on.
"""

import torch


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, state, *inputs):
        ctx.function, ctx.state, ctx.inputs = function, state, inputs
        with torch.no_grad():
            return function(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        inputs = [one.detach().requires_grad_(one.requires_grad) if torch.is_tensor(one) else one for one in ctx.inputs]
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            output = ctx.function(*inputs)
        torch.set_rng_state(now)
        torch.autograd.backward(output, gradient)
        return (None,) * (2 + len(inputs))


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    return Checkpoint.apply(function, torch.get_rng_state(), *inputs)
