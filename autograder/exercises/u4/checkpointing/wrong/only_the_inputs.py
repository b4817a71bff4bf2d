"""weights forgotten

Asks for the gradients of the inputs only.
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
        asking = [one for one in inputs if torch.is_tensor(one) and one.requires_grad]
        found = iter(torch.autograd.grad(output, asking, gradient))
        return None, None, *(next(found) if torch.is_tensor(one) and one.requires_grad else None for one in inputs)


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    return Checkpoint.apply(function, torch.get_rng_state(), *inputs)
