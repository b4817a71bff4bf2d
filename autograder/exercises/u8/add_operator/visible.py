"""The learner's side: the operator is built from entries and kernel, and called in all its variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.tensors import described, made
from fxopt_workbench.internals.mirror import BuildError, Structured, like_tensor_iterator, read_operators

MOST_CHARACTERS = 6000
"""Length of the entries that become evidence."""

LONGEST = 400
"""Length of a message that becomes evidence."""

MARK = 777.0
"""What stands in `out` before the call."""


def call(variant: str, x: dict[str, Any], cap: dict[str, Any], out: list[int] | None = None) -> dict[str, Any]:
    """One call: the variant ("functional", "inplace" or "out"), its tensors, and the shape of `out` before the call."""
    return {"variant": variant, "x": x, "cap": cap, "out": out}


def positive(shape: list[int], seed: int, **more: Any) -> dict[str, Any]:
    """A tensor of caps."""
    return described(shape, seed, positive=True, **{"scale": 3.0, **more})


def visible_cases() -> list[Case]:
    """One call of each variant, a cap for each column, and numbers far beyond the cap."""
    return [
        Case(
            "three variants",
            {
                "calls": [
                    call("functional", described([2, 3], 1, scale=5.0), positive([], 2)),
                    call("inplace", described([4], 3, scale=5.0), positive([4], 4)),
                    call("out", described([3], 5, scale=5.0), positive([3], 6), [3]),
                ]
            },
        ),
        Case(
            "a cap for each column",
            {"calls": [call("functional", described([4, 3], 7, scale=5.0), positive([3], 8))]},
        ),
        Case(
            "far beyond the cap",
            {"calls": [call("functional", described([6], 9, scale=4000.0), positive([], 10))]},
        ),
    ]


def probe(case: Case, entries: Any, kernel: Any) -> Evidence:
    """Hand over the entries, and what comes of each call."""
    text = entries()
    if not isinstance(text, str):
        raise TypeError(f"entries() must return text, not {type(text).__name__}")
    refused = None
    try:
        read_operators(text)
    except BuildError as error:
        refused = str(error)[:LONGEST]
    tensors: dict[str, torch.Tensor] = {}
    raised: list[str | None] = []
    for number, given in enumerate(case.parameters["calls"]):
        found, said = run(given, kernel)
        tensors |= {f"{number} {name}": one for name, one in found.items()}
        raised.append(said)
    return Evidence({"entries": text[:MOST_CHARACTERS], "refused": refused, "raised": raised}, tensors)


def run(given: dict[str, Any], kernel: Callable[..., Any]) -> tuple[dict[str, torch.Tensor], str | None]:
    """Call one variant that the build makes of a kernel.

    Returns:
        The result, both arguments afterwards, and for a call in place what the functional variant gives; or what was
        raised.
    """
    x, cap = made(given["x"]), made(given["cap"])
    operator = Structured(kernel)
    beside = {}
    try:
        if given["variant"] == "inplace":
            beside = {"beside": operator.functional(made(given["x"]), made(given["cap"]))}
            result = operator.inplace(x, cap)
        elif given["variant"] == "out":
            _, dtype = like_tensor_iterator(x, cap)
            out = torch.full(given["out"], MARK, dtype=dtype)
            memory = out.untyped_storage()
            out = operator.out(x, cap, out=out)
            # What others see who look at the same memory; the kernel may have given `out` another one.
            result = torch.empty(0, dtype=dtype).set_(memory, out.storage_offset(), out.shape, out.stride())
        else:
            result = operator.functional(x, cap)
    except NotImplementedError:
        raise
    except Exception as error:  # a learner's kernel raises anything
        return {}, f"{type(error).__name__}: {error}"[:LONGEST]
    return {"result": result, "x": x, "cap": cap} | beside, None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What torchgen made of the entries, and each result."""
    lines = [f"{case.name}:"]
    if evidence.values["refused"]:
        lines.append(f"  {evidence.values['refused']}")
    for number, given in enumerate(case.parameters["calls"]):
        what = f"  {given['variant']} of {given['x']['shape']} and {given['cap']['shape']}"
        result = evidence.tensors.get(f"{number} result")
        lines.append(f"{what}: {evidence.values['raised'][number] if result is None else _short(result)}")
    return ["\n".join(lines)]


def _short(result: torch.Tensor) -> str:
    first = ", ".join(f"{one:.4g}" for one in result.flatten()[:6].tolist())
    return f"{list(result.shape)}, {first}{', …' if result.numel() > 6 else ''}"
