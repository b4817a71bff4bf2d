"""The learner's side: chains of blocks with budgets, a training step with recomputation, and bars of memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence

WIDTH, BATCH = 6, 4


def chain(name: str, keeps: list[int], inputs: list[int], costs: list[int], budget: int, **more: Any) -> Case:
    """A case: what each block keeps, what its input takes, what it costs to run again, and the budget, all whole."""
    given = {"keeps": keeps, "inputs": inputs, "costs": costs, "budget": budget, "seed": 0, "tried": [0], "again": []}
    return Case(name, given | more)


def visible_cases() -> list[Case]:
    """Room for everything, equal blocks, a trap for the greedy, two peaks, a useless last block, and no way at all."""
    return [
        chain("room for everything", [5, 7, 6], [1, 1, 1], [3, 4, 3], 18, tried=[0, 1], again=[1]),
        chain("four equal blocks", [6, 6, 6, 6], [2, 2, 2, 2], [5, 5, 5, 5], 18, tried=[0, 2], again=[0, 2]),
        chain("the largest is dear", [10, 6, 6, 3], [1, 1, 1, 1], [30, 4, 5, 1], 18, tried=[1, 2], again=[3]),
        chain("two peaks", [3, 12, 3, 9], [1, 2, 1, 2], [2, 6, 2, 5], 17, tried=[1, 3], again=[0, 1, 2, 3]),
        chain("a large last block", [4, 5, 4, 20], [1, 1, 1, 3], [6, 5, 4, 1], 24, tried=[3], again=[2, 3]),
        chain("too small for anything", [8, 9, 8], [2, 2, 2], [1, 1, 1], 9, tried=[0, 1, 2], again=[0, 1, 2]),
    ]


def make_blocks(case: Case) -> tuple[list[nn.Module], torch.Tensor]:
    """As many blocks as the case has, in training and with dropout, and an input that needs no gradient."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.parameters["seed"])
        blocks = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.3), nn.Linear(WIDTH, WIDTH))
            for _ in case.parameters["keeps"]
        ]
        return list(blocks), torch.randn(BATCH, WIDTH)


def step(case: Case, run: Any) -> tuple[dict[str, torch.Tensor], list[int]]:
    """One training step: the result, every gradient, the random stream afterwards, and how often each block ran."""
    blocks, x = make_blocks(case)
    calls = [0] * len(blocks)

    def count(number: int) -> Any:
        def hook(module: nn.Module, inputs: Any) -> None:
            calls[number] += 1

        return hook

    for number, block in enumerate(blocks):
        block.register_forward_pre_hook(count(number))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        result = run(blocks, x, set(case.parameters["again"]))
        found = {"result": result.detach().clone()}
        if result.requires_grad:
            result.square().sum().backward()
        found["draws"] = torch.rand(1)
    for number, block in enumerate(blocks):
        found |= {f"gradient {number} {n}": p.grad for n, p in block.named_parameters() if p.grad is not None}
    return found, calls


def probe(case: Case, peak_bytes: Any, choose_recomputed: Any, run_with_recomputation: Any) -> Evidence:
    """The peak of one set, the chosen set or the refusal, and one training step."""
    given = case.parameters
    keeps, inputs, costs = given["keeps"], given["inputs"], given["costs"]
    peak = peak_bytes(list(keeps), list(inputs), set(given["tried"]))
    try:
        chosen = choose_recomputed(list(keeps), list(inputs), list(costs), given["budget"])
        found: Any = sorted(int(number) for number in chosen)
    except ValueError:
        found = "refused"
    tensors, calls = step(case, run_with_recomputation)
    return Evidence({"peak": int(peak), "chosen": found, "calls": calls}, tensors)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The blocks, what is computed again, and a bar of what each block holds until the backward pass."""
    given, chosen = case.parameters, evidence.values["chosen"]
    again = chosen if isinstance(chosen, list) else []
    lines = [f"{case.name}: budget {given['budget']}, your choice {chosen}"]
    for number, (keeps, inputs) in enumerate(zip(given["keeps"], given["inputs"], strict=True)):
        held = inputs if number in again else keeps
        what = "computed again" if number in again else ""
        lines.append(f"  block {number}  {'█' * held}{'░' * (keeps - held)} {held} of {keeps} held  {what}")
    return ["\n".join(lines)]
