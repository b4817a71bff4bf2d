"""Branch and bound for the choice; an autograd function of its own for the run."""

import torch


def peak_bytes(keeps, inputs, recomputed):
    before, most = 0, 0
    for number, (kept, given) in enumerate(zip(keeps, inputs)):
        most = max(most, before + kept)
        before += given if number in recomputed else kept
    return max(most, before)


def choose_recomputed(keeps, inputs, costs, budget):
    best = [float("inf"), None]

    def visit(number, before, cost, chosen):
        if cost >= best[0] or before > budget:
            return
        if number == len(keeps):
            best[:] = [cost, chosen]
        elif before + keeps[number] <= budget:
            visit(number + 1, before + keeps[number], cost, chosen)
            visit(number + 1, before + inputs[number], cost + costs[number], chosen | {number})

    visit(0, 0, 0, frozenset())
    if best[1] is None:
        raise ValueError(f"not even recomputing everything that helps fits into {budget}")
    return best[1]


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
        parameters = list(ctx.block.parameters())
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.random)
        with torch.enable_grad():
            result = ctx.block(x)
        torch.set_rng_state(now)
        found = torch.autograd.grad(result, [x, *parameters], gradient)
        return None, *found


def run_with_recomputation(blocks, x, recomputed):
    for number, block in enumerate(blocks):
        x = Again.apply(block, x, *block.parameters()) if number in recomputed else block(x)
    return x
