"""not the cheapest

Takes the first choice that fits, with as few blocks as can be.
"""

import copy
from itertools import combinations

import torch
from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps, inputs, recomputed):
    held = [inputs[i] if i in recomputed else keeps[i] for i in range(len(keeps))]
    return max(sum(held), *(sum(held[:i]) + keeps[i] for i in range(len(keeps))))


def choose_recomputed(keeps, inputs, costs, budget):
    for size in range(len(keeps) + 1):
        for chosen in combinations(range(len(keeps)), size):
            if peak_bytes(keeps, inputs, set(chosen)) <= budget:
                return set(chosen)
    raise ValueError("nothing fits")


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
