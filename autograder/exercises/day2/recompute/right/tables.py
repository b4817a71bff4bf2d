"""Dynamic programming over what is held; the run by hooks on saved tensors."""

from functools import reduce
from itertools import accumulate

from torch.utils.checkpoint import checkpoint


def peak_bytes(keeps, inputs, recomputed):
    held = [inputs[i] if i in recomputed else k for i, k in enumerate(keeps)]
    before = [0, *accumulate(held)]
    return max([before[-1]] + [b + k for b, k in zip(before, keeps)])


def choose_recomputed(keeps, inputs, costs, budget):
    states = {0: (0, ())}
    for number, (kept, given, cost) in enumerate(zip(keeps, inputs, costs)):
        following = {}
        for held, (paid, chosen) in states.items():
            if held + kept > budget:
                continue
            for size, price, names in ((kept, paid, chosen), (given, paid + cost, (*chosen, number))):
                if price < following.get(held + size, (float("inf"),))[0]:
                    following[held + size] = (price, names)
        states = following
    states = {held: state for held, state in states.items() if held <= budget}
    if not states:
        raise ValueError("impossible")
    return set(min(states.values())[1])


def run_with_recomputation(blocks, x, recomputed):
    def runner(pair):
        number, block = pair
        if number not in recomputed:
            return block
        return lambda value: checkpoint(block, value, use_reentrant=False, preserve_rng_state=True)

    return reduce(lambda value, pair: runner(pair)(value), enumerate(blocks), x)
