"""The peak by definition, the cheapest choice by trying all, and a training step that gives the same gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.day2.recompute.visible import chain, step

MISCONCEPTIONS = {
    "forward only": (
        "Your peak is what is held when the forward pass ends. Later the backward pass runs a block again: then all "
        "that the block keeps is there once more, next to what the blocks before it hold."
    ),
    "freed late": (
        "Your peak counts what later blocks held. When the backward pass comes to a block, it is done with those "
        "behind it, and their memory is free."
    ),
    "input counted twice": (
        "You count the input of a recomputed block twice: it is part of what the block keeps, and already held."
    ),
    "all at once": "You add up what all recomputed blocks need. They run again one after the other, not at once.",
    "wrong peak": "The peak is not right: go through the forward pass, then back block by block; take the maximum.",
    "over the budget": "Your choice does not fit into the budget.",
    "recomputed everything": (
        "You recompute every block, though less would do: each one costs time, and some save nothing at the peak."
    ),
    "recomputed for nothing": "Everything fits without recomputation: then nothing should be computed again.",
    "not the cheapest": "A cheaper choice fits into the budget, too. The largest block first is not always right.",
    "impossible budget": "No choice fits into this budget: raise a `ValueError`, so that nobody runs into it later.",
    "refused too soon": "You refused a budget that can be met.",
    "other values": "The result of your run is not that of the blocks, one after the other.",
    "lost gradients": "Some parameters get no gradient, or another one, when their block is computed again.",
    "other random numbers": (
        "The second run of a block drew other random numbers than the first: its dropout dropped other values, and the "
        "gradients belong to another function. The random state must be kept and set again."
    ),
    "wrong blocks": "Each block in `recomputed` must run twice in a training step, every other one once.",
}


def peak(keeps: Sequence[int], inputs: Sequence[int], again: Collection[int]) -> int:
    """The most that is held at any time of a training step."""
    held = [inputs[i] if i in again else keeps[i] for i in range(len(keeps))]
    return max(sum(held), *(sum(held[:i]) + keeps[i] for i in range(len(keeps))))


def cheapest(case: Case) -> int | None:
    """The least cost of a choice that fits; `None` if none does."""
    given = case.parameters
    blocks = range(len(given["keeps"]))
    fitting = [
        sum(given["costs"][i] for i in again)
        for size in range(len(blocks) + 1)
        for again in combinations(blocks, size)
        if peak(given["keeps"], given["inputs"], again) <= given["budget"]
    ]
    return min(fitting, default=None)


def hidden_cases(random: Random) -> list[Case]:
    """Six to nine blocks of random sizes; budgets that can be met with effort, with ease, and not at all."""
    cases = []
    for number in range(4):
        count = random.randint(6, 9)
        inputs = [random.randint(1, 3) for _ in range(count)]
        keeps = [size + random.randint(2, 12) for size in inputs]
        costs = [random.randint(1, 20) for _ in range(count)]
        sets = [again for size in range(count + 1) for again in combinations(range(count), size)]
        least = min(peak(keeps, inputs, again) for again in sets)
        budget = least - 1 if number == 3 else random.randint(least, (least + sum(keeps)) // 2)
        tried, again = (sorted(random.sample(range(count), random.randint(2, count - 1))) for _ in range(2))
        seed = random.randrange(2**31)
        cases.append(chain(f"hidden {number}", keeps, inputs, costs, budget, tried=tried, again=again, seed=seed))
    return cases


def mistaken_peaks(keeps: list[int], inputs: list[int], again: list[int]) -> dict[str, int]:
    """What each mistake gives for the peak."""
    blocks = range(len(keeps))
    held = [inputs[i] if i in again else keeps[i] for i in blocks]
    extra = [keeps[i] - inputs[i] if i in again else 0 for i in blocks]
    doubled = [keeps[i] if i in again else 0 for i in blocks]
    return {
        "forward only": sum(held),
        "freed late": sum(held) + max(extra),
        "input counted twice": max(sum(held), *(sum(held[: i + 1]) + doubled[i] for i in blocks)),
        "all at once": sum(held) + sum(extra),
    }


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The formula, then the choice, then the training step."""
    given, values = case.parameters, evidence.values
    right = peak(given["keeps"], given["inputs"], given["tried"])
    if values["peak"] != right:
        mistakes = mistaken_peaks(given["keeps"], given["inputs"], given["tried"])
        kind = next((name for name, figure in mistakes.items() if figure == values["peak"]), "wrong peak")
        yield kind, f"(blocks {given['tried']} computed again: {right}, found {values['peak']})"
        return
    if problem := _choice(case, values["chosen"]):
        yield problem
        return
    yield from _step(case, evidence)


def _choice(case: Case, chosen: Any) -> tuple[str, str] | None:
    """What is wrong with the chosen blocks."""
    given, least = case.parameters, cheapest(case)
    if chosen == "refused" or least is None:
        if chosen == "refused" and least is None:
            return None
        return ("impossible budget" if least is None else "refused too soon"), ""
    reached = peak(given["keeps"], given["inputs"], chosen)
    if reached > given["budget"] or not set(chosen) <= set(range(len(given["keeps"]))):
        return "over the budget", f"(peak {reached}, budget {given['budget']})"
    cost = sum(given["costs"][i] for i in chosen)
    if cost > least:
        everything = len(chosen) == len(given["keeps"])
        kind = "recomputed everything" if everything else "not the cheapest"
        return (kind if least else "recomputed for nothing"), f"(cost {cost}, {least} is enough)"
    return None


def _plain(blocks: list[nn.Module], x: torch.Tensor, again: set[int]) -> torch.Tensor:
    for block in blocks:
        x = block(x)
    return x


def _step(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the training step."""
    wanted, calls = step(case, _plain)
    again = case.parameters["again"]
    if not agrees(evidence.tensors.get("result"), wanted.pop("result")):
        yield "other values", ""
        return
    off = [name for name, value in wanted.items() if not agrees(evidence.tensors.get(name), value, absolute=1e-6)]
    gradients = [name for name in off if name.startswith("gradient")]
    missing = [name for name in gradients if name not in evidence.tensors]
    if missing or (off and not again):
        yield "lost gradients", f"({', '.join(off[:4])})"
    elif off:
        yield "other random numbers", f"({', '.join(off[:4])})"
    elif evidence.values["calls"] != [count + (i in again) for i, count in enumerate(calls)]:
        yield "wrong blocks", f"(runs of each block: {evidence.values['calls']}, to be computed again: {again})"
