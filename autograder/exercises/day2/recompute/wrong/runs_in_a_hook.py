"""kept everything

Runs each chosen block once more when its gradient comes, and forgets nothing before.
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


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        given, x = x, block(x)
        if i in recomputed:
            x.register_hook(lambda gradient, block=block, given=given: once_more(block, given))
    return x


def once_more(block, given):
    state = torch.get_rng_state()
    with torch.no_grad():
        block(given)
    torch.set_rng_state(state)
