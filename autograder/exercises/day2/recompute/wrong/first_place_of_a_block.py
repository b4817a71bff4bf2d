"""wrong blocks

Asks the list for the number of a block, and gets the first place of one that stands there twice.
"""

from itertools import combinations

from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps, inputs, recomputed):
    held = [inputs[i] if i in recomputed else keeps[i] for i in range(len(keeps))]
    return max(sum(held), *(sum(held[:i]) + keeps[i] for i in range(len(keeps))))


def choose_recomputed(keeps, inputs, costs, budget):
    blocks = range(len(keeps))
    sets = [set(chosen) for size in range(len(keeps) + 1) for chosen in combinations(blocks, size)]
    fitting = [chosen for chosen in sets if peak_bytes(keeps, inputs, chosen) <= budget]
    if not fitting:
        raise ValueError("no choice fits")
    return min(fitting, key=lambda chosen: sum(costs[i] for i in chosen))


def run_with_recomputation(blocks, x, recomputed):
    for block in blocks:
        if blocks.index(block) in recomputed:
            x = checkpoint(block, x, use_reentrant=False)
        else:
            x = block(x)
    return x
