"""What happens to each program in PyTorch, and which mistakes would say something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.explaining import compared
from autograder.exercises.u4.in_place_errors.visible import (
    FINE,
    IN_BACKWARD,
    OUTCOMES,
    SILENT,
    WHEN_WRITTEN,
    Program,
    in_words,
    leaves_of,
    program,
    steps_of,
)

MISCONCEPTIONS = {
    "not a pair": (
        'Return a pair: one of the four texts ("raises when written", "raises in backward", "silent", "fine"), and the '
        'number of the step, or None for "fine".'
    ),
    "leaves touched": (
        "The leaves that came in have other values, or a gradient, afterwards. A program may write into its leaves, so "
        "run it on copies, and ask for gradients with `torch.autograd.grad`."
    ),
    "wrong outcome": "Something else happens to this program in PyTorch.",
    "wrong step": "You name another step than the first one that overwrote a value that backward reads.",
    "hooks hide the check": (
        "You say silent, and PyTorch raises. While hooks pack the saved tensors, autograd does not compare versions: "
        "what would raise goes through. Compare `_version` yourself, or run once without hooks."
    ),
    "versions only": (
        "You look at versions, or wait for an error. Writing through `.data` or through NumPy changes the numbers and "
        "leaves the version as it was: keep copies, and compare the gradients."
    ),
    "never read": (
        "A saved value was overwritten, but backward never reads it: the loss does not depend on it. Note in the "
        "unpacking hook what is read."
    ),
    "gradients are the same": (
        "A saved value was overwritten, and the gradients come out the same. relu, for example, only asks which "
        "numbers are positive. Compare gradients, not saved values."
    ),
    "other random numbers": (
        "The program draws random numbers, and your two runs drew different ones, so their gradients differ by "
        "themselves. Compare within one run, or put the generator back before the second."
    ),
    "NaN is not NaN": "NaN differs from itself, so that gradients with NaN look changed. Treat two NaN as equal.",
    "refused at once": (
        "PyTorch refuses some writes at once: to a leaf that asks for gradients, to a view of one, to one of several "
        "views that an operator gave together. Look for the error where the step runs."
    ),
    "last write": "You name the last step that overwrote the value. The first one is asked for.",
    "within one step": (
        "You overlook what a step saves and overwrites itself. After each step, compare everything that has been saved "
        "by then, what this step saved included."
    ),
    "step counted from 1": "Steps count from 0, as in the list.",
}


@dataclass
class Saved:
    """A value that autograd saved.

    Attributes:
        tensor: as it is now.
        version: its version when it was saved.
        copy: its numbers when it was saved.
        step: the step that saved it.
        bumped: steps after which its version was another than before them.
        changed: the same for its numbers.
        read: whether backward reads it.
    """

    tensor: torch.Tensor
    version: int
    copy: torch.Tensor
    step: int
    bumped: list[int]
    changed: list[int]
    read: bool = False

    def later(self, steps: list[int]) -> list[int]:
        """Those of some steps that come after the one that saved it."""
        return [number for number in steps if number > self.step]

    def noticed(self, steps: list[int]) -> list[int]:
        """Where some steps are noticed by whoever looks at it only after the step behind the one that saved it."""
        return [max(number, self.step + 1) for number in steps]


@dataclass(frozen=True)
class Observed:
    """What happens to a program.

    Attributes:
        failed: the step that raises.
        raises: whether backward raises.
        differs: whether gradients are others than those of what was saved.
        bumped: for each saved value that backward reads, the steps that raised its version.
        changed: for each of them, the steps that changed its numbers.
        later_bumped: the first of the two without the step that saved the value.
        later_changed: the second.
        noticed_bumped: the first of the two as it looks to whoever compares a value only after the step behind that.
        noticed_changed: the second.
        unread_bumped: the first of the two for what backward never reads.
        unread_changed: the second.
        has_nan: whether a gradient has a NaN.
        random: whether two runs draw different gradients.
    """

    failed: int | None = None
    raises: bool = False
    differs: bool = False
    bumped: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    later_bumped: tuple[int, ...] = ()
    later_changed: tuple[int, ...] = ()
    noticed_bumped: tuple[int, ...] = ()
    noticed_changed: tuple[int, ...] = ()
    unread_bumped: tuple[int, ...] = ()
    unread_changed: tuple[int, ...] = ()
    has_nan: bool = False
    random: bool = False


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one.nan_to_num(1234.5), other.nan_to_num(1234.5)) and torch.equal(one.isnan(), other.isnan())


def _plain(given: Program, seed: int) -> list[torch.Tensor | None]:
    """Gradients as PyTorch gives them."""
    torch.manual_seed(seed)
    values = leaves_of(given)
    asking = [one for one in values if one.requires_grad]
    for step in steps_of(given):
        values.append(step(values))
    return list(torch.autograd.grad(values[-1], asking, allow_unused=True))


def observe(given: Program) -> Observed:
    """Run a program in PyTorch as it is, and once more with every saved value under watch."""
    saved: list[Saved] = []
    give_back = "tensor"

    def pack(tensor: torch.Tensor) -> Saved:
        saved.append(
            Saved(tensor, tensor._version, tensor.detach().clone(), len(values) - len(given["leaves"]), [], [])
        )
        return saved[-1]

    def unpack(one: Saved) -> torch.Tensor:
        one.read = True
        return one.copy if give_back == "copy" else one.tensor

    torch.manual_seed(given["seed"])
    values = leaves_of(given)
    asking = [one for one in values if one.requires_grad]
    with saved_tensors_hooks(pack, unpack):
        for number, step in enumerate(steps_of(given)):
            before = [(one._version, one.detach().clone()) for one in (entry.tensor for entry in saved)]
            try:
                values.append(step(values))
            except RuntimeError:
                return Observed(failed=number)
            # What this step saved is compared with what it saved.
            before += [(entry.version, entry.copy) for entry in saved[len(before) :]]
            for entry, (version, numbers) in zip(saved, before, strict=True):
                if entry.tensor._version != version:
                    entry.bumped.append(number)
                if not _same(entry.tensor.detach(), numbers):
                    entry.changed.append(number)
    found = torch.autograd.grad(values[-1], asking, retain_graph=True, allow_unused=True)
    give_back = "copy"
    right = torch.autograd.grad(values[-1], asking, allow_unused=True)
    differs = not all(_same(one, other) for one, other in zip(found, right, strict=True))
    try:
        plain, raises = _plain(given, given["seed"]), False
        other_draw = _plain(given, given["seed"] + 1)
    except RuntimeError:
        plain, other_draw, raises = [], [], True
    return Observed(
        raises=raises,
        differs=differs,
        bumped=tuple(number for one in saved if one.read for number in one.bumped),
        changed=tuple(number for one in saved if one.read for number in one.changed),
        later_bumped=tuple(number for one in saved if one.read for number in one.later(one.bumped)),
        later_changed=tuple(number for one in saved if one.read for number in one.later(one.changed)),
        noticed_bumped=tuple(number for one in saved if one.read for number in one.noticed(one.bumped)),
        noticed_changed=tuple(number for one in saved if one.read for number in one.noticed(one.changed)),
        unread_bumped=tuple(number for one in saved if not one.read for number in one.bumped),
        unread_changed=tuple(number for one in saved if not one.read for number in one.changed),
        has_nan=any(one is not None and bool(one.isnan().any()) for one in found),
        random=not all(_same(one, other) for one, other in zip(plain, other_draw, strict=True)),
    )


Answer = list[Any]
"""An outcome and the number of a step, or `None`."""


def right_answer(seen: Observed) -> Answer:
    """What is to be said of a program."""
    if seen.failed is not None:
        return [WHEN_WRITTEN, seen.failed]
    if seen.raises:
        return [IN_BACKWARD, min(seen.bumped)]
    return [SILENT, min(seen.changed)] if seen.differs else [FINE, None]


def outcomes_by_mistake(seen: Observed) -> dict[str, list[str]]:
    """The outcome that each mistake would give."""
    right = right_answer(seen)[0]

    def instead(when: bool, other: str) -> list[str]:
        return [other if when else right]

    written = seen.failed is not None
    return {
        "hooks hide the check": instead(seen.raises, SILENT if seen.differs else FINE),
        "versions only": instead(right == SILENT, FINE),
        "never read": [
            *instead(right == FINE and bool(seen.unread_bumped), IN_BACKWARD),
            *instead(right == FINE and bool(seen.unread_changed), SILENT),
            # Whoever compares gradients is right about what only changed the numbers.
            *([FINE] if right == FINE and not seen.unread_bumped else []),
        ],
        "gradients are the same": instead(right == FINE and bool(seen.changed), SILENT),
        # Two draws may also come out alike.
        "other random numbers": [right, *instead(right == FINE and seen.random, SILENT)],
        "NaN is not NaN": instead(right == FINE and seen.has_nan, SILENT),
        "refused at once": instead(written, IN_BACKWARD),
        "within one step": [
            right,
            *instead(right == IN_BACKWARD and not seen.later_bumped, SILENT if seen.differs else FINE),
            # Whoever copies a value only once the step is over takes what was overwritten for what was saved.
            *instead(right == IN_BACKWARD and not seen.later_bumped, FINE),
            *instead(right == SILENT and len(seen.later_changed) < len(seen.changed), FINE),
        ],
    }


def hidden_cases(random: Random) -> list[Case]:
    """A case for each way to write and to be spared, and random programs of every outcome."""
    fixed = {
        "nothing written": [program("x c", ["mul", 0, 1], ["sin", 2], ["loss", 3])],
        "refused at once": [
            program("x", ["row", 0], ["mul_", 1], ["loss", 1]),
            program("x", ["double", 0], ["first of unbind", 1], ["mul_", 2], ["loss", 2]),
            program("x", ["exp", 0], ["mul_", 0], ["loss", 1]),
        ],
        "a leaf without recording": [
            program("x", ["sin", 0], ["no_grad mul_", 0], ["loss", 1]),
            program("x", ["double", 0], ["no_grad mul_", 0], ["loss", 1]),
            program("x", ["sin", 0], ["data mul_", 0], ["loss", 1]),
        ],
        "through a view": [
            program("x", ["double", 0], ["sin", 1], ["flat", 1], ["add_", 3], ["loss", 2]),
            program("x", ["double", 0], ["flat", 1], ["exp", 2], ["assign", 1], ["loss", 3]),
            program("x", ["exp", 0], ["row", 1], ["data mul_", 2], ["loss", 1]),
            # Of a view that came with others, a copy that autograd records is refused once its base was written.
            program("x", ["double", 0], ["first of unbind", 1], ["sin", 2], ["mul_", 1], ["loss", 3]),
            program("x", ["double", 0], ["first of unbind", 1], ["sin", 2], ["data mul_", 1], ["loss", 3]),
        ],
        "written hundreds of times": [
            program("x", ["double", 0], ["add_ 300 times", 1], ["sin", 1], ["loss", 3]),
            program("x", ["double", 0], ["add_ 300 times", 1], ["sin", 1], ["double", 3], ["add_", 1], ["loss", 4]),
        ],
        "detached": [
            program("x", ["exp", 0], ["detach mul_", 1], ["loss", 1]),
            program("x", ["double", 0], ["detach mul_", 1], ["loss", 1]),
        ],
        # A step is any function, and may do both.
        "saved and written in one step": [
            program("x", ["exp then mul_", 0], ["loss", 1]),
            program("x", ["exp then data mul_", 0], ["loss", 1]),
            program("x", ["double", 0], ["sin then add_", 1], ["loss", 2]),
            program("x", ["exp then mul_", 0], ["double", 1], ["add_", 1], ["loss", 2]),
            program("x", ["double", 0], ["exp then data mul_", 1], ["data mul_", 2], ["loss", 2]),
            program("x", ["double", 0], ["sin then add_", 1], ["exp", 1], ["loss", 3]),
            program("x", ["double", 0], ["sin then data mul_", 1], ["numpy", 1], ["loss", 2]),
            program("x", ["relu then data mul_", 0], ["loss", 1]),
        ],
        "by NumPy": [
            program("x", ["exp", 0], ["numpy", 1], ["loss", 1]),
            program("x c", ["mul", 0, 1], ["numpy", 0], ["loss", 2]),
        ],
        "no gradient needs it": [
            program("x c", ["mul", 0, 1], ["detach mul_", 2], ["add_", 2], ["loss", 2]),
            program("x c", ["mul", 1, 1], ["add", 0, 2], ["mul_", 1], ["loss", 3]),
        ],
        "never read": [
            program("x", ["double", 0], ["exp", 1], ["sin", 1], ["mul_", 2], ["loss", 3]),
            program("x", ["double", 0], ["exp", 1], ["sin", 1], ["data mul_", 2], ["loss", 3]),
            program("x", ["double", 0], ["exp", 1], ["data mul_", 2], ["sin", 1], ["data mul_", 1], ["loss", 4]),
            program("x", ["double", 0], ["exp", 1], ["sin", 1], ["mul_", 2], ["mul_", 1], ["loss", 3]),
        ],
        "the same gradients": [
            program("x", ["relu", 0], ["data mul_", 1], ["loss", 1]),
            program("x", ["exp", 0], ["data mul_ by 1", 1], ["loss", 1]),
            program("x", ["sin", 0], ["exp", 1], ["data halve", 2], ["data double", 2], ["loss", 2]),
        ],
        "the same numbers": [program("x", ["exp", 0], ["mul_ by 1", 1], ["double", 1], ["loss", 3])],
        "random numbers": [
            program("x", ["dropout", 0], ["dropout", 0], ["double", 1], ["loss", 2, 3]),
            program("x", ["dropout", 0], ["exp", 1], ["data mul_", 2], ["loss", 2]),
        ],
        # Leaves besides the first, some of which the loss never asks, and a change that no tolerance may swallow.
        "several leaves": [
            program("x x", ["exp", 1], ["data mul_", 2], ["add", 0, 2], ["loss", 4]),
            program("x x", ["sin", 0], ["exp", 1], ["loss", 2]),
            program("x x", ["sin", 0], ["exp", 1], ["data mul_", 3], ["loss", 2, 3], held=True),
            program("c x x", ["mul", 0, 1], ["data mul_", 0], ["loss", 3]),
            program("x", ["exp", 0], ["data nudge", 1], ["loss", 1]),
        ],
        "NaN": [
            # NaN in the place of numbers, and numbers in the place of NaN.
            program("x", ["exp", 0], ["data fill nan", 1], ["loss", 1]),
            program("x", ["mul", 0, 0], ["minus", 1], ["sqrt then data fill 2", 2], ["loss", 3]),
            program("x", ["mul", 0, 0], ["minus", 1], ["sqrt", 2], ["loss", 3]),
            program("x c", ["mul", 1, 1], ["minus", 2], ["sqrt", 3], ["exp", 0], ["data mul_", 5], ["loss", 4, 5]),
            # One row of the gradient is NaN, and the other one is another than it should be.
            program(
                "x",
                *(["mul", 0, 0], ["minus", 1], ["row", 2], ["sqrt", 3], ["exp", 0], ["data mul_", 5], ["loss", 4, 5]),
            ),
        ],
        "written twice": [
            program("x", ["exp", 0], ["add_", 1], ["double", 1], ["add_", 1], ["loss", 3]),
            program("x", ["exp", 0], ["double", 1], ["data mul_", 1], ["numpy", 1], ["loss", 2]),
            program("x", ["exp", 0], ["data mul_", 1], ["add_", 1], ["loss", 1]),
            program("x", ["exp", 0], ["exp", 1], ["add_", 1], ["data mul_", 2], ["loss", 2]),
            # Two values that backward reads, whichever was saved, and is read, first.
            program("x", ["exp", 0], ["exp", 1], ["add_", 1], ["add_", 2], ["loss", 2]),
            program("x", ["exp", 0], ["exp", 1], ["add_", 2], ["add_", 1], ["loss", 2]),
            program("x", ["exp", 0], ["exp", 1], ["data mul_", 1], ["data mul_", 2], ["loss", 2]),
            program("x", ["exp", 0], ["exp", 1], ["data mul_", 2], ["data mul_", 1], ["loss", 2]),
            # The first change alone would not matter; it is still the first one of what backward reads.
            program("x", ["relu", 0], ["exp", 0], ["data mul_", 1], ["data mul_", 2], ["loss", 1, 2]),
        ],
        "its own result": [
            program("x", ["double", 0], ["tanh", 1], ["mul_", 2], ["loss", 2]),
            program("x", ["double", 0], ["sin", 1], ["mul_", 2], ["loss", 2]),
        ],
    }
    cases = [
        Case(name, {"programs": [{**one, "seed": random.randrange(10**6)} for one in programs]})
        for name, programs in fixed.items()
    ]
    return [*cases, Case("random", {"programs": random_programs(random)})]


def random_programs(random: Random, of_each: int = 3) -> list[Program]:
    """Programs of every outcome, in no order."""
    found: dict[str, list[Program]] = {outcome: [] for outcome in OUTCOMES}
    for _ in range(2000):
        given = random_program(random)
        kept = found[right_answer(observe(given))[0]]
        if len(kept) < of_each:
            kept.append(given)
        if all(len(one) == of_each for one in found.values()):
            drawn = [one for programs in found.values() for one in programs]
            random.shuffle(drawn)
            return drawn
    raise RuntimeError("2000 random programs do not come to every outcome")


def random_program(random: Random) -> Program:
    """Some steps, a write or two, some steps, and a loss over one or two values."""
    reading = ["exp", "sin", "tanh", "relu", "double", "flat", "dropout"]
    reading += ["exp then mul_", "exp then data mul_", "sin then data mul_", "sin then add_"]
    writing = ["mul_", "add_", "assign", "no_grad mul_", "detach mul_", "data mul_", "numpy"]
    steps: list[list[Any]] = [[random.choice(["double", "sin", "exp"]), 0]]
    sizes = ["whole", "whole", "whole"]
    for _ in range(random.randint(2, 5)):
        if random.random() < 0.4:
            index = random.randrange(len(sizes)) if random.random() < 0.3 else random.randrange(2, len(sizes))
            steps.append([random.choice(writing), index])
            sizes.append(sizes[index])
            continue
        whole = [number for number, one in enumerate(sizes) if one == "whole"]
        if random.random() < 0.4:
            steps.append([random.choice(["mul", "add"]), random.choice(whole), random.choice(whole)])
            sizes.append("whole")
        else:
            name, index = random.choice(reading), random.choice(whole)
            steps.append([name, index])
            sizes.append("flat" if name == "flat" else "whole")
    ends = {2, random.randrange(2, len(sizes)), len(sizes) - 1}
    chosen = random.sample(sorted(ends), random.randint(1, len(ends)))
    depends = {0}
    for number, (_, *indices) in enumerate(steps, 2):
        depends |= {number} if depends & set(indices) else set()
    steps.append(["loss", *(chosen if depends & set(chosen) else [*chosen, 2])])
    return program("x c", *steps, seed=random.randrange(10**6))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What differs from PyTorch, program by program."""
    for given, found in zip(case.parameters["programs"], evidence.values["answers"], strict=True):
        asked = "; ".join(line.strip() for line in in_words(given))
        if found == "touched":
            yield "leaves touched", f"({asked})"
            return
        if found is None or found[0] not in OUTCOMES:
            yield "not a pair", f"({asked})"
            return
        seen = observe(given)
        right = right_answer(seen)
        size = len(given["steps"])
        yield compared("wrong outcome", found[0], right[0], outcomes_by_mistake(seen), asked, size)
        if found[0] == right[0]:
            yield compared("wrong step", found[1], right[1], _steps_by_mistake(seen, right), asked, size)


def _steps_by_mistake(seen: Observed, right: Answer) -> dict[str, list[int | None]]:
    later = seen.later_bumped if right[0] == IN_BACKWARD else seen.later_changed
    noticed = seen.noticed_bumped if right[0] == IN_BACKWARD else seen.noticed_changed
    overwriting = seen.bumped if right[0] == IN_BACKWARD else seen.changed if right[0] == SILENT else ()
    every = (*overwriting, *(seen.unread_bumped if right[0] == IN_BACKWARD else seen.unread_changed))
    return {
        "last write": [max(overwriting, default=right[1])],
        "never read": [min(every)] if overwriting else [right[1]],
        "within one step": [min(later, default=None), min(noticed)] if overwriting else [right[1]],
        "step counted from 1": [None if right[1] is None else right[1] + 1],
    }
