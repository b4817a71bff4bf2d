"""Packs what a block saves as numbers, and finds the tensors again by running it; masks for the choice."""

import torch


class Rerun:
    def __init__(self, block, x):
        self.block, self.x, self.random = block, x, torch.get_rng_state()
        self.count, self.found = 0, None

    def pack(self, tensor):
        self.count += 1
        return self.count - 1

    def unpack(self, number):
        if self.found is None:
            self.found, now = [], torch.get_rng_state()
            torch.set_rng_state(self.random)
            with (
                torch.enable_grad(),
                torch.autograd.graph.saved_tensors_hooks(lambda t: self.found.append(t.detach()), lambda _: None),
            ):
                self.block(self.x.detach().requires_grad_(self.x.requires_grad))
            torch.set_rng_state(now)
        return self.found[number]


def peak_bytes(keeps, inputs, recomputed):
    most = held = 0
    for i, (kept, given) in enumerate(zip(keeps, inputs, strict=True)):
        most = max(most, held + kept)
        held += given if i in recomputed else kept
    return most


def choose_recomputed(keeps, inputs, costs, budget):
    best = None
    for mask in range(2 ** len(keeps)):
        chosen = [i for i in range(len(keeps)) if mask >> i & 1]
        if peak_bytes(keeps, inputs, chosen) <= budget:
            best = min([*filter(None, [best]), (sum(costs[i] for i in chosen), chosen)])
    if best is None:
        raise ValueError("the budget is too small")
    return best[1]


def run_with_recomputation(blocks, x, recomputed):
    for i, block in enumerate(blocks):
        if i not in recomputed:
            x = block(x)
            continue
        again = Rerun(block, x)
        with torch.autograd.graph.saved_tensors_hooks(again.pack, again.unpack):
            x = block(x)
    return x
