"""not the cheapest

Takes the block that saves most until the rest fits.
Also: recomputed everything.
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
    chosen = set()
    order = sorted(range(len(keeps)), key=lambda i: inputs[i] - keeps[i])
    for i in [None, *order]:
        if i is not None:
            chosen.add(i)
        if peak_bytes(keeps, inputs, chosen) <= budget:
            return chosen
    raise ValueError("no choice fits into the budget")


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
