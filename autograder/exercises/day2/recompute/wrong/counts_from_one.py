"""over the budget

Numbers the blocks that it chooses from 1.
Also: no such block; not the cheapest; recomputed everything.
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
    return {i + 1 for i in min(fitting, key=lambda chosen: sum(costs[i] for i in chosen))}


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
