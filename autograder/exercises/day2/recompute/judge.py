"""The peak by definition, the cheapest choice by trying all, and training steps that give the same gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, pairwise
from random import Random
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import once_a_case
from autograder.exercises.day2.recompute.visible import BATCH, STEPS, WIDTH, Watched, chain, step

MISCONCEPTIONS = {
    "forward only": (
        "Your peak is what is held when the forward pass ends. Later the backward pass runs a block again. Then all "
        "that the block keeps is there once more, next to what the blocks before it hold."
    ),
    "freed late": (
        "Your peak counts what later blocks held. When the backward pass comes to a block, it is done with those "
        "behind it, and their memory is free."
    ),
    "input counted twice": (
        "You count the input of a recomputed block twice: it is part of what the block keeps, and already held."
    ),
    "all at once": (
        "You add up what all recomputed blocks need. They run again one after the other, so their memory is not needed "
        "at once."
    ),
    "recomputed blocks only": (
        "You look at the turns of the recomputed blocks only. Every block has its turn in the backward pass, and what "
        "it keeps is there next to what the blocks before it hold."
    ),
    "wrong peak": (
        "Your peak is not right. Go through the moments of a step: the end of the forward pass, then each block's turn "
        "in the backward pass. The peak is the largest of them."
    ),
    "over the budget": "Your choice does not fit into the budget.",
    "recomputed everything": "You recompute every block, though less would do: each one costs time.",
    "recomputed for nothing": "Everything fits without recomputation: then nothing should be computed again.",
    "not the cheapest": "A cheaper choice of blocks fits into the budget, too.",
    "impossible budget": "No choice fits into this budget: raise a `ValueError`, so that nobody runs into it later.",
    "refused too soon": "You refused a budget that can be met.",
    "no such block": "Your choice names blocks that are not there: blocks are numbered from 0.",
    "other values": "The result of your run is not that of the blocks, one after the other.",
    "lost gradients": "After your run some parameters, or the input, get no gradient.",
    "other gradients": "After your run some gradients are not what they are without recomputation.",
    "other random numbers": (
        "The second run of a block drew other random numbers than the first. Its dropout dropped other values, so the "
        "gradients belong to another function. Keep the random state, and set it again for the second run."
    ),
    "moved the random stream": (
        "After your step the random stream is not where it would be without recomputation: what is drawn next is "
        "another number."
    ),
    "ran again at once": (
        "A block ran twice in the forward pass. To recompute is to run once, to forget what the block kept, and to run "
        "it again when the backward pass comes to it."
    ),
    "wrong blocks": (
        "Each block in `recomputed` must run once in the forward pass and once in the backward pass, every other one "
        "in the forward pass only."
    ),
    "ran again together": (
        "Several blocks ran again before the first of them had its gradients, so all that they keep is there at once. "
        "Recompute each block by itself, when the backward pass comes to it."
    ),
    "kept everything": (
        "When your forward pass ends, more is kept than need be: what a recomputed block keeps, its input apart, must "
        "be forgotten until its second run."
    ),
}

UNNAMED = ("wrong peak",)
"""What says that an answer is not right, and names no mistake."""


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
    """Chains of random sizes with budgets that can be met with effort, with ease, and not at all; then fixed ones."""
    return [*(composed(random, number) for number in range(5)), *fixed_cases()]


def fixed_cases() -> list[Case]:
    """One block, ten blocks, budgets that are met exactly or missed by one, blocks that save, keep or cost nothing."""
    return [
        chain("hidden one block", [7], [2], [3], 7, again=[0]),
        chain("hidden one block, one byte too many", [7], [2], [3], 6, then=[0]),
        chain("hidden met exactly", [5, 5, 5], [1, 1, 1], [2, 3, 4], 11, again=[0, 1], then=[1, 2]),
        chain("hidden missed by one", [5, 5, 5], [1, 1, 1], [2, 3, 4], 6, again=[1], then=[0, 2]),
        chain("hidden blocks that save nothing", [4, 9, 4, 9], [4, 3, 4, 3], [1, 8, 1, 8], 20, again=[1, 3], then=[0]),
        chain("hidden blocks that keep nothing", [0, 0], [0, 0], [3, 2], 0, again=[0], then=[1]),
        chain("hidden blocks that cost nothing", [6, 7, 8], [2, 2, 2], [0, 5, 0], 17, again=[0, 2], then=[2]),
        chain("hidden two cheap ones or one dear one", [9, 5, 5, 4], [1, 1, 1, 1], [7, 3, 3, 1], 15, again=[1, 2]),
        chain("hidden one dear one or two cheap ones", [9, 5, 5, 4], [1, 1, 1, 1], [5, 3, 3, 1], 15, again=[0, 1]),
        chain("hidden the last block is recomputed", [3, 3, 30], [1, 1, 1], [1, 1, 1], 34, again=[2], then=[2]),
        chain(
            "hidden one block in two places", [4, 4, 4], [1, 1, 1], [2, 2, 2], 12, again=[2], then=[0, 1], same=[[2, 0]]
        ),
        chain("hidden the middle is the peak", [2, 20, 2], [1, 3, 1], [1, 9, 1], 23, tried=[[1], [0, 1]], again=[1]),
        chain(
            "hidden ten blocks",
            [9, 4, 7, 5, 8, 6, 9, 3, 7, 6],
            [1, 2, 1, 2, 1, 2, 1, 2, 1, 2],
            [8, 3, 6, 2, 9, 4, 7, 1, 5, 3],
            30,
            tried=[[0, 2, 4, 6, 8], [1, 3, 5]],
            again=[1, 2, 3, 6, 9],
            then=[0, 4, 5],
        ),
    ]


def composed(random: Random, number: int = 0) -> Case:
    """Four to nine blocks of random sizes, and a budget somewhere between what is least and what is plenty."""
    count = random.randint(4, 9)
    inputs = [random.randint(1, 3) for _ in range(count)]
    keeps = [size + random.randint(0, 12) for size in inputs]
    costs = [random.randint(1, 20) for _ in range(count)]
    sets = [again for size in range(count + 1) for again in combinations(range(count), size)]
    least = min(peak(keeps, inputs, again) for again in sets)
    budget = least - 1 if number % 5 == 3 else random.randint(least, (least + sum(keeps)) // 2)
    tried = [sorted(random.sample(range(count), random.randint(1, count - 1))) for _ in range(4)]
    again, then = (sorted(random.sample(range(count), random.randint(2, count - 1))) for _ in range(2))
    seed = random.randrange(2**31)
    name = f"hidden mixture {number}"
    return chain(name, keeps, inputs, costs, budget, tried=tried, again=again, then=then, seed=seed)


def mistaken_peaks(keeps: Sequence[int], inputs: Sequence[int], again: Sequence[int]) -> dict[str, int]:
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
        "recomputed blocks only": max((sum(held[:i]) + keeps[i] for i in again), default=sum(held)),
    }


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The formula, then the choice, then the training steps."""
    values = evidence.values
    yield from (peaks := list(_peaks(case, values["peaks"])))
    if any(isinstance(item, Deviation) for item in peaks):
        return
    if problem := _choice(case, values["chosen"]):
        yield problem
        return
    yield from _steps(case, evidence)


def _peaks(case: Case, found: Any) -> Iterator[Deviation | Agreement]:
    """Whether the peaks are right, and which mistakes would give just those."""
    keeps, inputs, sets = (case.parameters[name] for name in ("keeps", "inputs", "tried"))
    right = [peak(keeps, inputs, again) for again in sets]
    tried = [mistaken_peaks(keeps, inputs, again) for again in sets]
    mistakes = {name: [one[name] for one in tried] for name in tried[0]}
    if found == right:
        yield Agreement("wrong peak", tuple(name for name, peaks in mistakes.items() if peaks != right))
        return
    at = next(i for i, figure in enumerate(right) if [figure] != found[i : i + 1])
    figures = (
        f"(keeps {keeps}, inputs {inputs}, blocks {sets[at]} computed again: expected {right[at]}, found {found[at]})"
    )
    yield Deviation(
        "wrong peak", tuple(name for name, peaks in mistakes.items() if peaks == found), figures, len(keeps)
    )


def _choice(case: Case, chosen: Any) -> tuple[str, str] | None:
    """What is wrong with the chosen blocks."""
    given, least = case.parameters, cheapest(case)
    asked = f"(keeps {given['keeps']}, inputs {given['inputs']}, costs {given['costs']}, budget {given['budget']}"
    if chosen == "refused" or least is None:
        if chosen == "refused" and least is None:
            return None
        told = f"{asked}; found {chosen})" if least is None else f"{asked}; a choice that costs {least} fits)"
        return ("impossible budget" if least is None else "refused too soon"), told
    if not set(chosen) <= set(range(len(given["keeps"]))):
        return "no such block", f"{asked}; found {chosen})"
    reached = peak(given["keeps"], given["inputs"], chosen)
    if reached > given["budget"]:
        return "over the budget", f"{asked}; found {chosen}, which has the peak {reached})"
    cost = sum(given["costs"][i] for i in chosen)
    if cost > least:
        everything = len(chosen) == len(given["keeps"])
        kind = "recomputed everything" if everything else "not the cheapest"
        return (kind if least else "recomputed for nothing"), f"{asked}; found {chosen} for {cost}, {least} is enough)"
    return None


def _right(blocks: list[nn.Module], x: torch.Tensor, again: set[int]) -> torch.Tensor:
    for i, block in enumerate(blocks):
        x = checkpoint(block, x, use_reentrant=False) if i in again else block(x)
    return x


@once_a_case
def _wanted(case: Case) -> tuple[dict[str, torch.Tensor], list[Watched]]:
    return step(case, _right)


def _steps(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the training steps."""
    wanted, watched = _wanted(case)
    off = [name for name, value in wanted.items() if not agrees(evidence.tensors.get(name), value, absolute=1e-6)]
    gradients = [name for name in off if "gradient" in name]
    with_dropout, without = (_told(name for name in gradients if name.startswith(f"{entry} ")) for entry in STEPS)
    if results := [name for name in off if name.endswith("result")]:
        yield "other values", f"(in {'training' if results[0].startswith('again') else 'evaluation'})"
    elif missing := [name for name in gradients if name not in evidence.tensors]:
        yield "lost gradients", f"({_told(missing)})"
    elif without:
        yield "other gradients", f"({without})"
    elif with_dropout:
        # The second step recomputes, too, has no dropout, and is right.
        yield "other random numbers", f"({with_dropout})"
    elif off:
        yield "moved the random stream", ""
    else:
        for entry, seen, right in zip(STEPS, evidence.values["watched"], watched, strict=True):
            if problem := _run(case, entry, seen, right):
                yield problem
                return


def _told(names: Any) -> str:
    return ", ".join(name.partition(" ")[2] for name in list(names)[:3])


def _run(case: Case, entry: str, seen: dict[str, Any], right: Watched) -> tuple[str, str] | None:
    """What is wrong with how often and when blocks ran, and with what was kept."""
    again, once_more = case.parameters[entry], [number for what, number in right.backward if what == "run"]
    forward, backward = seen["forward"], [number for what, number in seen["backward"] if what == "run"]
    told = f"(to be computed again: {again}; runs of each block in the forward pass: {forward}; in the backward pass: "
    told += f"{backward or 'none'})"
    if max(forward) > max(right.forward):
        return "ran again at once", told
    if forward != right.forward or sorted(backward) != sorted(once_more):
        return "wrong blocks", told
    events = [tuple(event) for event in seen["backward"]]
    # A block that stands there twice has its gradients only when both turns are over.
    turns = () if "same" in case.parameters else pairwise(backward)
    for later, earlier in turns:
        if ("gradient", later) not in events[: events.index(("run", earlier))]:
            return "ran again together", f"(block {earlier} ran again before block {later} had its gradients)"
    # Which tensors hold the inputs of recomputed blocks is the answer's affair.
    enough = right.held + len(again) * BATCH * WIDTH * 4
    if seen["held"] > enough:
        return "kept everything", f"({seen['held']} bytes, of which {enough} are needed at most)"
    return None
