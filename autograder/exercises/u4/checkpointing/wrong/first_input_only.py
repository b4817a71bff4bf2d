"""inputs forgotten

Hands back the gradient of the first input, and none of the others.
"""

"""A Function, with an input that always asks for gradients, so that the weights get theirs."""

import torch


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ticket, function, state, *inputs):
        ctx.function, ctx.state = function, state
        ctx.tensors = [torch.is_tensor(one) for one in inputs]
        ctx.others = [None if torch.is_tensor(one) else one for one in inputs]
        ctx.save_for_backward(*(one for one in inputs if torch.is_tensor(one)))
        return function(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        saved = iter(ctx.saved_tensors)
        inputs = []
        for tensor, other in zip(ctx.tensors, ctx.others):
            if tensor:
                one = next(saved)
                inputs.append(one.detach().requires_grad_(one.requires_grad))
            else:
                inputs.append(other)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            output = ctx.function(*inputs)
        if output.requires_grad:
            torch.autograd.backward(output, gradient)
        return None, None, None, inputs[0].grad, *[None] * (len(inputs) - 1)


def checkpoint(function, *inputs):
    state = torch.get_rng_state()
    return Again.apply(torch.zeros(0, requires_grad=True), function, state, *inputs)
