"""The learner's side: chains of blocks with budgets, training steps with recomputation, and bars of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from autograder.exchange.evidence import Case, Evidence

WIDTH, INSIDE, BATCH = 6, 24, 4
"""A block hands on `WIDTH` numbers a row, and keeps some times `INSIDE` of them."""

STEPS = ("again", "then")
"""The entries of a case that say which blocks are recomputed in its first and in its second training step."""


def chain(name: str, keeps: list[int], inputs: list[int], costs: list[int], budget: int, **more: Any) -> Case:
    """A case: what each block keeps, what its input takes, what it costs to run again, and the budget, all whole.

    Of its further entries `tried` are sets of blocks of which the peak is asked, besides a few that every case has, and
    `same` are pairs of places: in the first one stands the block of the second again.
    """
    count = len(keeps)
    given = {"keeps": keeps, "inputs": inputs, "costs": costs, "budget": budget, "seed": 0, "again": []}
    sets = [*more.pop("tried", []), [], [0], [count - 1], list(range(count)), list(range(0, count, 2))]
    given["then"] = more.get("again", [])
    return Case(name, given | {"tried": sets} | more)


def visible_cases() -> list[Case]:
    """Room for everything, equal blocks, a trap for the greedy, two peaks, a useless last block, and no way at all."""
    return [
        chain("room for everything", [5, 7, 6], [1, 1, 1], [3, 4, 3], 18, tried=[[0, 1]], again=[1], then=[0]),
        chain("four equal blocks", [6, 6, 6, 6], [2, 2, 2, 2], [5, 5, 5, 5], 18, tried=[[0, 2]], again=[0, 2]),
        chain("the largest is dear", [10, 6, 6, 3], [1, 1, 1, 1], [30, 4, 5, 1], 18, tried=[[1, 2]], again=[3]),
        chain(
            "two peaks", [3, 12, 3, 9], [1, 2, 1, 2], [2, 6, 2, 5], 17, tried=[[1, 3]], again=[0, 1, 2, 3], then=[1, 2]
        ),
        chain("a large last block", [4, 5, 4, 20], [1, 1, 1, 3], [6, 5, 4, 1], 24, tried=[[3]], again=[2, 3], then=[0]),
        chain("too small for anything", [8, 9, 8], [2, 2, 2], [1, 1, 1], 9, again=[0, 1, 2], then=[0, 1, 2]),
    ]


def make_blocks(case: Case) -> list[nn.Module]:
    """As many blocks as the case has, with dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.parameters["seed"])
        blocks = [
            nn.Sequential(nn.Linear(WIDTH, INSIDE), nn.Tanh(), nn.Dropout(0.3), nn.Linear(INSIDE, WIDTH))
            for _ in case.parameters["keeps"]
        ]
        for number, earlier in case.parameters.get("same", []):
            blocks[number] = blocks[earlier]
        return list(blocks)


class _Kept:
    """A tensor that autograd keeps, for as long as it does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Watched:
    """What happens while blocks run and gradients flow.

    Attributes:
        forward: how often each block ran in the forward pass.
        backward: what happened in the backward pass, in order: `["run", block]` or `["gradient", block]`.
        held: bytes that autograd keeps when the forward pass ends, parameters apart, each piece of memory once.
    """

    def __init__(self, blocks: list[nn.Module]) -> None:
        self.forward = [0] * len(blocks)
        self.backward: list[list[Any]] = []
        self.held = 0
        self._flows_back = False
        self._kept: WeakSet[_Kept] = WeakSet()
        self._parameters = {p.untyped_storage().data_ptr() for block in blocks for p in block.parameters()}
        self._handles: list[Any] = []
        for block, number in {block: blocks.index(block) for block in blocks}.items():  # a block may stand there twice
            self._handles.append(block.register_forward_pre_hook(self._ran(number)))
            for parameter in block.parameters():
                self._handles.append(parameter.register_post_accumulate_grad_hook(self._accumulated(number)))

    def _ran(self, number: int) -> Callable[[nn.Module, Any], None]:
        def note(module: nn.Module, inputs: Any) -> None:
            if self._flows_back:
                self.backward.append(["run", number])
            else:
                self.forward[number] += 1

        return note

    def _accumulated(self, number: int) -> Callable[[torch.Tensor], None]:
        return lambda parameter: self.backward.append(["gradient", number])

    def keep(self, tensor: torch.Tensor) -> _Kept:
        """For autograd: what to keep in the place of a tensor."""
        kept = _Kept(tensor)
        self._kept.add(kept)
        return kept

    def turn(self) -> None:
        """The forward pass has ended."""
        storages = {kept.tensor.untyped_storage().data_ptr(): kept.tensor.untyped_storage() for kept in self._kept}
        self.held = sum(storages[place].nbytes() for place in storages.keys() - self._parameters)
        self._flows_back = True

    def end(self) -> None:
        """Nothing more is to be noted."""
        for handle in self._handles:
            handle.remove()


def step(case: Case, run: Any) -> tuple[dict[str, torch.Tensor], list[Watched]]:
    """Two training steps of the same blocks: results, gradients, the random stream afterwards, and what was seen.

    In the first one there is dropout, and the input needs no gradient; in the second there is none, and it needs one.
    """
    blocks, found, seen = make_blocks(case), {}, []
    for number, entry in enumerate(STEPS):
        for block in blocks:
            block.train(number == 0).zero_grad()
        watched = Watched(blocks)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3 + number)
            x = torch.randn(BATCH, WIDTH, requires_grad=number == 1)
            with saved_tensors_hooks(watched.keep, lambda kept: kept.tensor):
                result = run(list(blocks), x, set(case.parameters[entry]))
            found[f"{entry} result"] = result.detach().clone()
            watched.turn()
            if result.requires_grad:
                result.square().sum().backward()
            found[f"{entry} draws"] = torch.rand(1)
        watched.end()
        seen.append(watched)
        named = {f"gradient of block {i}, {n}": p for i, b in enumerate(blocks) for n, p in b.named_parameters()}
        for name, parameter in (named | {"gradient of the input": x}).items():
            if parameter.grad is not None:
                found[f"{entry} {name}"] = parameter.grad.clone()
    return found, seen


def probe(case: Case, peak_bytes: Any, choose_recomputed: Any, run_with_recomputation: Any) -> Evidence:
    """The peaks of some sets, the chosen set or the refusal, and two training steps."""
    given = case.parameters
    keeps, inputs, costs = given["keeps"], given["inputs"], given["costs"]
    peaks = [int(peak_bytes(list(keeps), list(inputs), set(tried))) for tried in given["tried"]]
    try:
        chosen = choose_recomputed(list(keeps), list(inputs), list(costs), given["budget"])
        found: Any = sorted(int(number) for number in chosen)
    except ValueError:
        found = "refused"
    tensors, seen = step(case, run_with_recomputation)
    watched = [{"forward": one.forward, "backward": one.backward, "held": one.held} for one in seen]
    return Evidence({"peaks": peaks, "chosen": found, "watched": watched}, tensors)


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
