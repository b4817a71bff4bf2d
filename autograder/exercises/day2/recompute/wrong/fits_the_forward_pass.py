"""over the budget

Knows the peak, and chooses by what is held at the end of the forward pass.
Also: impossible budget.
"""

from itertools import combinations

import torch
from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps, inputs, recomputed):
    held = [inputs[i] if i in recomputed else keeps[i] for i in range(len(keeps))]
    peaks = [sum(held)]
    for i in range(len(keeps)):
        peaks.append(sum(held[:i]) + keeps[i])
    return max(peaks)


def choose_recomputed(keeps, inputs, costs, budget):
    blocks = range(len(keeps))
    best = None
    for size in range(len(keeps) + 1):
        for chosen in combinations(blocks, size):
            if sum(inputs[i] if i in chosen else keeps[i] for i in blocks) <= budget:
                cost = sum(costs[i] for i in chosen)
                if best is None or cost < best[0]:
                    best = (cost, set(chosen))
    if best is None:
        raise ValueError("no choice fits into the budget")
    return best[1]


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
