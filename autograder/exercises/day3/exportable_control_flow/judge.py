"""What an exportable model is: one graph that computes what the given model computes, whatever the data decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run
from autograder.exercises.day3.exportable_control_flow.visible import GivenModel, build, direct_calls, draw_input

Variant = Callable[[GivenModel, torch.Tensor, int], torch.Tensor]

SMALL = 1e-7
"""A level that every floor changes by which learners keep a square root from `nan`, down to a millionth."""

TINY = 1e-20
"""A level that floors such as `1e-12` change, too. It is as exact as others: far above the least float32 number."""

MANY_STEPS = 10
"""From how many steps on not every number of them is tried."""

MISCONCEPTIONS = {
    "other state_dict": (
        "Your model's `state_dict` has other names or shapes than the given one, so that trained parameters no longer "
        "fit. Keep the constructor; change only `forward`."
    ),
    "still decided by Python": (
        "Python still asks a tensor for its value: an `if`, a `range(int(…))` or a `.item()`. While the model is "
        "exported that value does not exist. The decision has to be taken by an operation in the graph."
    ),
    "sides do not match": (
        "`torch.cond` refuses: both sides must return tensors of the same shape and dtype, take exactly the operands "
        "that you hand over, change none of them in place, and return none of them as it came."
    ),
    "froze the batch size": (
        "Your model can be exported only for the batch size of the example: some size in it is a plain number. Take "
        "sizes from the input (`x.shape[0]`, `torch.zeros_like`)."
    ),
    "refused": "`torch.export` refuses your model; its message names the operation that it cannot take.",
    "hidden from the graph": (
        "Your graph calls a Python function of yours as one opaque operation, so another program could not run it. "
        "Write the function with operations of torch."
    ),
    "does not run": "The graph of your model raises an error on inputs that the given model accepts.",
    "baked the branch in": (
        "Your graph takes the same side of the branch, whatever the input: only one side was written, or the choice "
        "was made while exporting. Both must be in the graph, and the graph must choose."
    ),
    "sides swapped": "Your graph takes the first side when the given model takes the second, and the reverse.",
    "decides for each element": (
        "The given `if` decides once for the whole tensor. Yours decides for each element or row by itself: "
        "the condition must be one value."
    ),
    "nan on the second side": (
        "Your graph gives `nan` on the second side: the square root of a negative level. Either only the first side is "
        "in your graph, or you blend both with factors 0 and 1; but 0 times `nan` is `nan`. Choose with `torch.where` "
        "or `torch.cond`, which take one and drop the other."
    ),
    "small levels changed": (
        "Your graph is right for ordinary inputs, but not where the level is positive and very small: there it divides "
        "by something else than `level.sqrt()`. A floor (`clamp(min=0.01)`, `+ 1e-3`) keeps `nan` away from the side "
        "that is *not* wanted, and changes the one that is. There is no need for it: `torch.where` and `torch.cond` "
        "take one side and drop the other, `nan` and all."
    ),
    "level of zero": (
        "Your graph is right but where the level is exactly 0: there the given model takes the *second* side. The "
        "condition is `level > 0`."
    ),
    "nan at a level of zero": (
        "Your graph is right but where the level is exactly 0: there it gives `nan`, and the given model does not. The "
        "side that is not wanted divides by 0, and a sum of both sides keeps that. Choose with `torch.where` or "
        "`torch.cond`, which take one side and drop the other."
    ),
    "level of nan": (
        "Your graph is right but where one row holds a `nan`, so that the level is `nan`: there `level > 0` is false, "
        "and the given model takes the *second* side. `level <= 0` is false, too: that is another question."
    ),
    "numbers for nan": (
        "Your graph gives numbers where the given model gives `nan`. A level of infinity is above 0, so the first side "
        "is the right one, and it divides infinity by infinity. What the right side gives has to stay, `nan` and all."
    ),
    "baked the steps in": (
        "Your graph makes as many steps as the example asked for, whatever `steps` says. The count was recorded as a "
        "plain number."
    ),
    "always the most steps": (
        "Your graph always makes `most_steps` refinements. Going through the loop that often is fine, but a step past "
        "`steps` must leave the value as it is."
    ),
    "off by one": (
        "Your graph makes one step too many or one too few: step number `i`, from 0, is made when `i < steps`."
    ),
    "most_steps of another model": (
        "Your graph makes a number of steps that is right for a model with another `most_steps`: the greatest length "
        "of the loop stands there as a plain number (`range(3)`). Each model has its own: `range(self.most_steps)`."
    ),
    "wrong for no steps": (
        "Your graph is right but where `steps` is 0: there the given model makes no refinement at all, and the value "
        "of the branch is the result."
    ),
    "wrong for the most steps": (
        "Your graph is right but where `steps` is `self.most_steps`, the greatest number that may come. "
        "`range(self.most_steps)` ends one before it: look whether your loop, or what you choose from, reaches it."
    ),
    "no steps": "Your graph makes no refinements at all.",
    "computes something else": "For some inputs your graph does not compute what the given model computes.",
    "eager mode differs": "Called directly, without being exported, your model computes something else.",
}

REFUSALS = (
    ("data-dependent", "still decided by Python"),
    ("Unsupported operator: aten._local_scalar", "still decided by Python"),
    ("Constraints violated", "froze the batch size"),
    ("cond", "sides do not match"),
    ("while_loop", "sides do not match"),
)
"""What a refusal contains, and what that means. It only chooses words: a refusal is wrong whatever it says."""


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes and parameters, examples on both sides; a longer loop than the visible ones."""
    cases = []
    for i in range(2):
        most_steps = 5 if i == 0 else random.randint(2, 3)  # in none is a visible case's count too short by just one
        parameters = {
            "width": random.randint(3, 7),
            "hidden": random.randint(2, 8),
            "most_steps": most_steps,
            "batch": random.randint(2, 5),
            "steps": random.randint(1, most_steps - 1),
            "positive": i % 2 == 0,
            "bias": i % 2 == 0,
            "seed": random.randrange(2**31),
        }
        cases.append(Case(f"hidden {i}", parameters))
    # Its loop is longer than the plain numbers that learners think up for a loop of any length: 8, 10, 16.
    given = {"width": 4, "hidden": 3, "most_steps": 17, "batch": 3, "steps": 1, "seed": 5}
    given |= {"positive": True, "bias": False, "weights above zero": True, "small steps": True}
    return [*cases, Case("hidden an infinite level", given)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconceptions that explain what the graph gives, if it is not right."""
    values = evidence.values
    given, _, _ = build(case)
    if values["state"] != {name: list(value.shape) for name, value in given.state_dict().items()}:
        yield "other state_dict", f"(yours: {', '.join(values['state'])})"
        return
    if "refused" in values:
        text = str(values["refused"])
        yield next((name for mark, name in REFUSALS if mark in text), "refused"), f"({text.splitlines()[0][:200]})"
        return
    if "opaque" in values or "graph" not in evidence.graphs:
        yield "hidden from the graph", f"({values.get('opaque', 'no graph')})"
        return
    graph = decode(evidence.graphs["graph"])
    ordinary = list(samples_of(case, given))
    small = list(small_samples_of(case, given))
    zero = list(zero_samples_of(case, given))
    infinite = list(infinite_samples_of(case, given))
    samples = [*ordinary, *small, *zero, *nan_samples_of(case, given, ordinary), *infinite]
    found = []
    with torch.no_grad():
        for sample, count in samples:
            try:
                found.append(run(graph, [sample, torch.tensor(count)]))
            except Exception as error:  # a graph from outside may raise anything
                yield "does not run", f"(batch {sample.shape[0]}, {count} steps: {str(error).splitlines()[0][:200]})"
                return
        wanted = [given(sample, torch.tensor(count)) for sample, count in samples]
        wrong = [i for i, (one, other) in enumerate(zip(found, wanted, strict=True)) if not close(one, other)]
        if wrong:
            sample, count = samples[wrong[0]]
            before_zero = len(ordinary) + len(small)
            if wrong[0] >= len(samples) - len(infinite):
                repaired = isinstance(found[wrong[0]], torch.Tensor) and not found[wrong[0]].isnan().any()
                yield ("numbers for nan" if repaired else "computes something else"), "(the level is infinite)"
                return
            if wrong[0] >= before_zero + len(zero):
                turned = close(found[wrong[0]], variant(given, sample, "unless second", count))
                yield ("level of nan" if turned else "computes something else"), "(one row is nan; right without it)"
                return
            if wrong[0] >= before_zero:
                # Divided by 0, with no step after it, what is not 0 is infinite, and 0 times that is nan.
                last = found[before_zero + len(zero) - 1]
                blends = bool(last.isnan().any()) and not bool(last.isinf().any())
                yield ("nan at a level of zero" if blends else "level of zero"), "(on ordinary inputs right)"
                return
            if wrong[0] >= len(ordinary):
                level = float(given.first(sample).mean())
                yield "small levels changed", f"(wrong where the level is {level:.1e}; on all ordinary inputs right)"
                return
            detail = f"(wrong on {len(wrong)} of {len(samples)} inputs, one of them {len(sample)} rows, {count} steps)"
            for name in explain(case, given, ordinary, found[: len(ordinary)]):
                yield name, detail
            return
        for i, (x, steps) in enumerate(direct_calls(case)):
            if not close(evidence.tensors.get(f"eager{i}"), given(x, steps)):
                level = float(given.first(x).mean())
                yield "eager mode differs", f"({len(x)} rows, {int(steps)} steps, where the level is {level:.3g})"
                return


def close(found: object, wanted: torch.Tensor) -> bool:
    """Whether a value is the wanted one but for rounding, which is small against small values; `nan` equals `nan`."""
    if isinstance(found, torch.Tensor) and torch.equal(found.isnan(), wanted.isnan()):
        found, wanted = found.nan_to_num(), wanted.nan_to_num()
    return agrees(found, wanted, relative=1e-4, absolute=1e-5 * min(1.0, float(wanted.abs().max())))


def samples_of(case: Case, given: GivenModel) -> Iterator[tuple[torch.Tensor, int]]:
    """Inputs of the judge's own: both sides of the branch, every number of steps, batch sizes from 1 up.

    Of a long loop the first and last numbers of steps, and one between.
    """
    generator = torch.Generator().manual_seed(case.parameters["seed"] + 1)
    most = given.most_steps
    counts = range(most + 1) if most < MANY_STEPS else (0, 1, most // 2, most - 1, most)
    for count, positive in product(counts, (True, False)):
        batch = int(torch.randint(1, 8, (), generator=generator))
        yield draw_input(given, batch, positive, generator), count


def small_samples_of(case: Case, given: GivenModel) -> Iterator[tuple[torch.Tensor, int]]:
    """Inputs of which the level is positive and about `SMALL` or `TINY`, where the case's model is one that has such.

    Without a bias the first layer scales with its input, so that rounding is as small, against the level, as elsewhere.
    """
    if not case.parameters["bias"]:
        generator = torch.Generator().manual_seed(case.parameters["seed"] + 2)
        for level, count in ((SMALL, 0), (SMALL, given.most_steps), (TINY, 0)):
            x = draw_input(given, 4, True, generator)
            yield x * (level / float(given.first(x).mean().detach())), count


def zero_samples_of(case: Case, given: GivenModel) -> Iterator[tuple[torch.Tensor, int]]:
    """Inputs of which the level is exactly 0, where the case's model has no bias in its first layer.

    One is of zeros, and so is its hidden layer. In the last one whole numbers and their negatives cancel out, and no
    step is made.
    """
    if not case.parameters["bias"]:
        yield torch.zeros(3, given.first.in_features), given.most_steps
        numbers = torch.arange(1.0, given.first.in_features + 1)
        yield torch.stack([numbers, -numbers]), 0


def nan_samples_of(
    case: Case, given: GivenModel, samples: list[tuple[torch.Tensor, int]]
) -> Iterator[tuple[torch.Tensor, int]]:
    """An input with a `nan` in its first row, and so in its level; the other rows have none.

    Where the level can be exactly 0, too: what blends both sides shows itself there first.
    """
    if not case.parameters["bias"]:
        x = torch.cat([samples[0][0], samples[1][0]])
        yield x.index_fill(0, torch.tensor([0]), float("nan")), given.most_steps


def infinite_samples_of(case: Case, given: GivenModel) -> Iterator[tuple[torch.Tensor, int]]:
    """An input with infinity in one row, where no weight of the case's model turns that into `nan`."""
    if case.parameters.get("weights above zero"):
        yield torch.ones(3, given.first.in_features).index_fill(0, torch.tensor([1]), float("inf")), given.most_steps


SIDES = {
    "right": "",
    "first": "nan on the second side",
    "second": "baked the branch in",
    "swapped": "sides swapped",
    "elements": "decides for each element",
    "rows": "decides for each element",
}


def explain(
    case: Case, given: GivenModel, samples: list[tuple[torch.Tensor, int]], found: list[torch.Tensor]
) -> list[str]:
    """The misconceptions that explain every output of the learner's graph, when any do."""
    counts: dict[str, Callable[[int], int]] = {
        "": lambda count: count,
        "baked the steps in": lambda count: case.parameters["steps"],
        "always the most steps": lambda count: given.most_steps,
        "no steps": lambda count: 0,
        "off by one": lambda count: min(count + 1, given.most_steps),
    }
    # The same misconception in its other shapes.
    others: list[tuple[str, Callable[[int], int]]] = [
        ("off by one", lambda count: count + 1),
        ("off by one", lambda count: max(count - 1, 0)),
        ("off by one", lambda count: min(count, given.most_steps - 1)),
    ]
    others += [("most_steps of another model", at_most(most)) for most in range(2, given.most_steps - 1)]
    for (side, side_name), (count_name, count_of) in product(SIDES.items(), [*counts.items(), *others]):
        if all(
            close(theirs, variant(given, x, side, count_of(count)))
            for (x, count), theirs in zip(samples, found, strict=True)
        ):
            return [name for name in (side_name, count_name) if name]
    wrong = {
        count
        for (x, count), theirs in zip(samples, found, strict=True)
        if not close(theirs, variant(given, x, "right", count))
    }
    alone = {0: "wrong for no steps", given.most_steps: "wrong for the most steps"}
    return [alone.get(wrong.pop(), "computes something else") if len(wrong) == 1 else "computes something else"]


def at_most(most: int) -> Callable[[int], int]:
    """The number of steps of a graph whose loop is `most` long."""
    return lambda count: min(count, most)


def variant(given: GivenModel, x: torch.Tensor, side: str, count: int) -> torch.Tensor:
    """The given computation with one of `SIDES` and another number of steps in place of its own."""
    hidden = given.first(x)
    level = hidden.mean()
    first, second = hidden / level.sqrt(), torch.tanh(hidden)
    conditions = {
        "right": level > 0,
        "first": torch.tensor(True),
        "second": torch.tensor(False),
        "swapped": level <= 0,
        "unless second": ~(level <= 0),
        "elements": hidden > 0,
        "rows": hidden.mean(dim=1, keepdim=True) > 0,
    }
    hidden = torch.where(conditions[side], first, second)
    for _ in range(count):
        hidden = hidden + torch.sin(given.refine(hidden))
    return hidden
