"""recomputed everything

All or nothing: where not everything fits, every block is computed again.
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
    for chosen in (set(), set(range(len(keeps)))):
        if peak_bytes(keeps, inputs, chosen) <= budget:
            return chosen
    raise ValueError("no choice fits into the budget")


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in recomputed else block(x)
    return x
