"""other gradients

Calls `backward` in the backward pass, which adds to the gradients, and returns them as well.
"""

import copy
from itertools import combinations

import torch
from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps, inputs, recomputed):
    held = [inputs[i] if i in recomputed else keeps[i] for i in range(len(keeps))]
    return max(sum(held), *(sum(held[:i]) + keeps[i] for i in range(len(keeps))))


def choose_recomputed(keeps, inputs, costs, budget):
    sets = (set(chosen) for size in range(len(keeps) + 1) for chosen in combinations(range(len(keeps)), size))
    fitting = [chosen for chosen in sets if peak_bytes(keeps, inputs, chosen) <= budget]
    if not fitting:
        raise ValueError(f"no choice of blocks fits into {budget} bytes")
    return min(fitting, key=lambda chosen: sum(costs[i] for i in chosen))


class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.random = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.random)
        with torch.enable_grad():
            ctx.block(x).backward(gradient)
        torch.set_rng_state(now)
        return None, x.grad, *(parameter.grad for parameter in ctx.block.parameters())


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = Again.apply(block, x, *block.parameters()) if i in recomputed else block(x)
    return x
