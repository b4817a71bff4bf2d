"""What a network gives on the device: on one of the judge's own, exactly, since ticks are whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u3.toy_backend.visible import UNKNOWN, network, run

MISCONCEPTIONS = {
    "left the device": (
        "A result has no `ticks` of whole numbers (int64): it is not a tensor of your device. Wrap what an operator "
        "returns, and keep its ticks."
    ),
    "no gradient": (
        "There is no gradient on the device. Stand below autograd, in `__torch_dispatch__`: then autograd records "
        "your tensors like others, and its formulas call your kernels."
    ),
    "rounded late": (
        "The device has no numbers between two ticks: round the result of *every* operator, not only what is read in "
        "the end."
    ),
    "cut off": "Round to the nearest tick. You cut off what is beyond the last one.",
    "halves rounded up": "A number halfway between two ticks goes to the even one, as `torch.round` does.",
    "single precision": (
        "You calculate in single precision, which has no room for all digits of a product of two large numbers. Hand "
        "the operator numbers in double precision."
    ),
    "no limit": ("The device has no ticks beyond -32768 and 32767: what is larger stays at the limit."),
    "limited too late": (
        "Infinity is beyond the last tick, too, and no whole number. Bring numbers within the limits before you make "
        "whole numbers of them."
    ),
    "wraps around": "What is beyond the last tick stays there. In your device it came back at the other end.",
    "written elsewhere": (
        "An operator that writes in place must change the ticks of *its* tensor. Yours made a new one, so "
        "training changes nothing."
    ),
    "keyword arguments dropped": "Hand keyword arguments on to the kernel: `alpha=` scales what is added.",
    "runs anything": (
        "The device has the operators in `SUPPORTED` and no others. Raise `NotImplementedError` for the rest: a "
        "device that silently goes elsewhere hides what it costs."
    ),
    "unnamed": "The error must name the operator as in `SUPPORTED`, such as aten.sin.default.",
    "wrong ticks": "The numbers on your device are others.",
}

LEAST, MOST, TICKS = -(2**15), 2**15 - 1, 256


def hidden_cases(random: Random) -> list[Case]:
    """Networks that reach the limits, that write in place often, and that call what the device does not have."""
    seed = random.randrange
    names = list(UNKNOWN)
    cases = {
        "beyond the limits": network(4, 6, 3, seed=seed(10**6), spread=9000, body="square", rate=1.5),
        "keyword arguments": network(3, 5, 2, seed=seed(10**6), body="shifted", steps=2),
        "three layers": network(4, 5, 4, 3, seed=seed(10**6), steps=3, rows=3, body="turned"),
        "one row": network(2, 3, 1, seed=seed(10**6), rows=1, body="halved", steps=2),
        "divided by 0": network(2, 3, 2, seed=seed(10**6), spread=40, steps=0, body="over nothing"),
        "not on this device": network(3, 3, seed=seed(10**6), steps=1, unknown=names),
        "many steps": network(2, 3, 2, seed=seed(10**6), steps=6, rate=0.375, body="halved"),
    }
    # Large products that nearly cancel each other: what is left has digits that single precision lost. Of 4,000 sums
    # some fifty stay within the limits.
    cases["digits of large products"] = network(12, 80, seed=0, steps=0, rows=50, spread=32767)
    # A little more than half of an odd number lies beyond the middle between two ticks; single precision loses that.
    # Other rates are multiples of 1/8: with a rate such as 0.3 the order of the steps decides what is halfway.
    cases["a rate of many digits"] = network(12, 40, seed=0, rate=0.5 + 2**-30)
    # As many rows as columns: a sum that keeps its dimension is added to the rows, and one without it to the columns.
    cases["sums along a dimension"] = network(3, 2, 2, seed=2, steps=0, rows=2, body="with its sums")
    cases["the opposite of the lower limit"] = network(4, 6, 3, seed=1, steps=0, spread=9000, body="taken from itself")
    for number in range(3):
        sizes = [random.randint(1, 6) for _ in range(random.randint(2, 4))]
        cases[f"random {number}"] = network(
            *sizes,
            seed=seed(10**6),
            rows=random.randint(1, 4),
            spread=random.choice([40, 400, 4000]),
            steps=random.randint(1, 3),
            rate=random.choice([0.125, 0.25, 0.375]),
            body=random.choice(["relu", "square", "halved", "shifted", "turned"]),
            unknown=random.sample(names, 1),
        )
    return [Case(name, {"network": given}) for name, given in cases.items()]


def _limited(ticks: torch.Tensor) -> torch.Tensor:
    return torch.round(ticks).clamp(LEAST, MOST).to(torch.int64)


def _wrapped_around(ticks: torch.Tensor) -> torch.Tensor:
    return (torch.round(ticks).to(torch.int64) - LEAST) % (MOST - LEAST + 1) + LEAST


def device(
    to_ticks: Callable[[torch.Tensor], torch.Tensor] = _limited,
    *,
    in_place: bool = True,
    options: bool = True,
    late: bool = False,
    dtype: torch.dtype = torch.float64,
) -> type[torch.Tensor]:
    """The class of a device's tensors; with what deviates from the defaults, one that makes a mistake."""

    class Fixed(torch.Tensor):
        exact: torch.Tensor

        @staticmethod
        def __new__(cls, ticks: torch.Tensor, requires_grad: bool = False) -> Any:
            return torch.Tensor._make_wrapper_subclass(
                cls, ticks.shape, dtype=torch.float32, requires_grad=requires_grad
            )

        def __init__(self, ticks: torch.Tensor, requires_grad: bool = False) -> None:
            self.exact = ticks.to(torch.float64)

        @property
        def ticks(self) -> torch.Tensor:
            return to_ticks(self.exact)

        @classmethod
        def __torch_dispatch__(  # type: ignore[override]
            cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if str(operator) in UNKNOWN:
                raise NotImplementedError(str(operator))

            def value(one: Any) -> torch.Tensor:
                return (one.exact / TICKS).to(dtype)

            given = tree_map_only(Fixed, value, (args, (kwargs or {}) if options else {}))
            found = operator(*given[0], **given[1]) * TICKS
            exact = found if late else to_ticks(found).to(torch.float64)
            if operator._schema.is_mutable and in_place:
                args[0].exact = exact
                return args[0]
            return Fixed(exact)

    return Fixed


def _cut_off(ticks: torch.Tensor) -> torch.Tensor:
    return ticks.trunc().clamp(LEAST, MOST).to(torch.int64)


def _down(ticks: torch.Tensor) -> torch.Tensor:
    return ticks.floor().clamp(LEAST, MOST).to(torch.int64)


def _halves_up(ticks: torch.Tensor) -> torch.Tensor:
    return (ticks + 0.5).floor().clamp(LEAST, MOST).to(torch.int64)


def _limited_late(ticks: torch.Tensor) -> torch.Tensor:
    return torch.round(ticks).to(torch.int64).clamp(LEAST, MOST)


def _unlimited(ticks: torch.Tensor) -> torch.Tensor:
    return torch.round(ticks).to(torch.int64)


FIXED = device()

FLAWED: tuple[tuple[str, type[torch.Tensor]], ...] = (
    ("keyword arguments dropped", device(options=False)),
    ("written elsewhere", device(in_place=False)),
    ("cut off", device(_cut_off)),
    ("cut off", device(_down)),
    ("halves rounded up", device(_halves_up)),
    ("no limit", device(_unlimited)),
    ("limited too late", device(_limited_late)),
    ("wraps around", device(_wrapped_around)),
    ("rounded late", device(late=True)),
    ("single precision", device(dtype=torch.float32)),
)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    given, found = case.parameters["network"], evidence.values
    wanted = run(given, FIXED)
    if None in found["outputs"] or None in found["losses"] or None in found["parameters"]:
        yield "left the device", "(of an output, a loss or a parameter)"
        return
    if any(one is None for gradients in found["gradients"] for one in gradients):
        yield "no gradient", "(of a weight or a bias)"
        return
    for what in ("outputs", "losses", "gradients", "parameters"):
        if found[what] != wanted[what]:
            yield _named(given, found), f"({what}: found {_in_words(found[what])}, wanted {_in_words(wanted[what])})"
            return
    for name, told in zip(given["unknown"], found["unknown"], strict=True):
        if told is None:
            yield "runs anything", f"({name} was not refused)"
            return
        if name not in told:
            yield "unnamed", f"({told!r} does not say {name})"
            return


def _named(given: dict[str, Any], found: dict[str, Any]) -> str:
    parts = ("outputs", "losses", "gradients", "parameters")
    for name, flawed in FLAWED:
        other = run(given, flawed)
        if all(other[what] == found[what] for what in parts):
            return name
    return "wrong ticks"


def _in_words(found: Any) -> str:
    text = str(found)
    return text if len(text) <= 160 else f"{text[:160]} …"
