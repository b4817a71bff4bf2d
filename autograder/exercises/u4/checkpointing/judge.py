"""What the same training step gives without checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.u4.checkpointing.visible import Program, program, run

MISCONCEPTIONS = {
    "another result": "With the checkpoint the function's result is another one than without it.",
    "drew from a stream of its own": (
        "The result, or what is drawn after it, differs from a run without a checkpoint: your code seeds the "
        "generator, or draws from it. Keep the generator's state, and do not choose one."
    ),
    "no graph": (
        "The result does not ask for gradients, although the function's weights do. If no *input* asks for them, a "
        "custom Function records nothing, and training stands still without a word. Saved-tensor hooks do not care who "
        "asks."
    ),
    "recorded though autograd is off": (
        "Under `torch.no_grad()` the function's result asks for no gradients, and with your checkpoint it does. Switch "
        "recording on for the second run only."
    ),
    "weights forgotten": (
        "The inputs get their gradients, and the weights that the function uses get none. They are no arguments: run "
        "the whole backward pass of the second run, not only the part that leads to the inputs."
    ),
    "inputs forgotten": "The weights get their gradients, and an input gets none: the chain is cut at the checkpoint.",
    "other random numbers": (
        "The gradients belong to other random numbers than the result: the second run drew new ones. Keep the "
        "generator's state from before the first run, and put it back for the second."
    ),
    "wrong gradients": "The gradients differ from those without a checkpoint.",
    "generator not put back": (
        "After the backward pass other random numbers are drawn than without a checkpoint. The second run has moved "
        "the generator: remember where it stood, and put it back there, in `finally`, so that it is put back even if "
        "the function raises."
    ),
    "nothing computed again": (
        "The function ran once, so what it computed was kept somewhere. A checkpoint keeps the inputs only, and "
        "computes again in the backward pass."
    ),
    "inner results kept": (
        "Results of layers are still in memory after the forward pass, when nobody else holds them. Let nothing of "
        "yours hold them: no graph, no list, no closure."
    ),
    "computed again and again": (
        "The function ran more than twice. Compute everything again at once, when the first of its saved values is "
        "asked for, hand out the others from there, and keep them: a node may read the same one twice."
    ),
    "computed again too early": "The second run took place before the backward pass, so nothing was saved by it.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other layers, pieces in one another, and everything that must stay as it was without a checkpoint."""
    fixed = {
        "random numbers": program("noise linear sin dropout noise", draws=True),
        "random numbers, only the weights ask": program("linear noise tanh linear dropout", x=False, draws=True),
        "only the input asks": program("linear tanh linear sin", weights=False),
        "nobody asks": program("linear tanh", x=False, weights=False, draws=True),
        "three pieces": program("linear tanh noise", "linear dropout sin", "noise tanh linear", draws=True),
        "in one another": program("linear tanh noise sin", "linear sin dropout tanh", nested=True),
        "in one another, only the weights ask": program("linear tanh", "linear noise sin", x=False, nested=True),
        "a second tensor and a number": program("linear tanh linear", "sin dropout linear", more=True),
        "autograd is off": program("linear tanh", records=False),
        "the second run raises": program("linear dropout tanh", draws=True, fails=True),
        "backward twice": program("linear dropout tanh", times=2),
        "a layer used twice": program("linear tanh", "linear sin", repeated=2),
        # More is read than was saved, so that counting does not tell when all of it has been.
        "a value read twice": program("linear tanh cube sin linear", "linear cube dropout tanh", draws=True),
        "the first value read twice": program("linear tanh linear cube", x=False),
        "the last value read twice": program("cube linear sin", "cube tanh linear", weights=False),
        "the last layer saves nothing": program("linear sin double", "tanh dropout double", draws=True),
    }
    cases = [Case(name, {**given, "seed": random.randrange(10**6)}) for name, given in fixed.items()]
    return cases + [Case(f"random {number}", random_program(random)) for number in range(3)]


def random_program(random: Random) -> Program:
    """One to three pieces of three to six layers."""
    pieces = [
        " ".join(
            ["linear", *random.choices(["linear", "tanh", "sin", "dropout", "noise", "cube"], k=random.randint(2, 5))]
        )
        for _ in range(random.randint(1, 3))
    ]
    return program(*pieces, x=random.random() < 0.6, draws=random.random() < 0.6, seed=random.randrange(10**6))


def plainly(function: Callable[..., torch.Tensor], *inputs: Any) -> torch.Tensor:
    """No checkpoint."""
    return function(*inputs)


def redrawn(function: Callable[..., torch.Tensor], *inputs: Any, late: bool = False) -> torch.Tensor:
    """A checkpoint that lets the second run draw new random numbers, or those that came right after the first run."""
    again: list[torch.Tensor] = []
    numbers = iter(range(10**6))

    def unpack(number: int) -> torch.Tensor:
        if not again:
            if late:
                torch.set_rng_state(after)
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(again.append, lambda _: torch.empty(0)):
                function(*inputs)
        return again[number]

    with torch.autograd.graph.saved_tensors_hooks(lambda _: next(numbers), unpack):
        result = function(*inputs)
    after = torch.get_rng_state()
    return result


def _right(evidence: Evidence, name: str, wanted: torch.Tensor) -> bool:
    return agrees(evidence.tensors.get(name), wanted, relative=1e-9, absolute=1e-9)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that differs from the same step without checkpoints."""
    given, values = case.parameters, evidence.values
    _, wanted = run(given, plainly)
    if not _right(evidence, "value", wanted["value"]):
        # Without random numbers it is the result itself that differs.
        random = any(name in ("dropout", "noise") for piece in given["pieces"] for name in piece)
        yield ("drew from a stream of its own" if random else "another result"), ""
        return
    if "drawn between" in wanted and not _right(evidence, "drawn between", wanted["drawn between"]):
        yield "drew from a stream of its own", "(after the forward pass)"
        return
    # A backward pass that raises gives no gradients.
    name = "" if given["fails"] else _gradients(given, evidence, wanted)
    if name == "wrong gradients" and _too_often(given, values["calls"]):
        # Each of too many runs may have drawn other numbers; which of them were used cannot be told.
        yield "computed again and again", f"({values['calls']} calls)"
        return
    if name:
        yield name, ""
        return
    if "drawn after" in wanted and not _right(evidence, "drawn after", wanted["drawn after"]):
        yield "generator not put back", ""
        return
    if not given["records"] or not (given["x"] or given["weights"]):
        return
    if max(values["calls before"]) > given["repeated"]:
        yield "computed again too early", f"({values['calls before']} calls before the backward pass)"
    elif min(values["calls"]) < 2 * given["repeated"]:
        yield "nothing computed again", f"({values['calls']} calls)"
    elif values["kept"] > 0:
        yield "inner results kept", f"({values['kept']})"
    elif _too_often(given, values["calls"]):
        yield "computed again and again", f"({values['calls']} calls)"


def _too_often(given: Program, calls: list[int]) -> bool:
    # A second backward pass may compute once more. Within another checkpoint a piece runs when that one does, and
    # once more for what it saved itself.
    return any(
        count > given["repeated"] * (1 + given["times"] * ((number + 1) if given["nested"] else 1))
        for number, count in enumerate(calls)
    )


def _gradients(given: Program, evidence: Evidence, wanted: dict[str, torch.Tensor]) -> str:
    names = [name for name in wanted if name.startswith("gradient")]
    found = [name for name in evidence.tensors if name.startswith("gradient")]
    if names and not found:
        return "no graph"
    if found and not given["records"]:
        return "recorded though autograd is off"
    missing = [name for name in names if name not in evidence.tensors]
    if missing:
        weights = any(name.startswith("gradient of weight") for name in missing)
        return "weights forgotten" if weights else "inputs forgotten"
    if set(found) == set(names) and all(_right(evidence, name, wanted[name]) for name in names):
        return ""
    for checkpoint in (redrawn, partial(redrawn, late=True)):
        _, others = run(given, checkpoint)
        if all(_right(evidence, name, others[name]) for name in names):
            return "other random numbers"
    return "wrong gradients"
