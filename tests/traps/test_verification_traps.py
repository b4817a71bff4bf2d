"""Two comparisons that know nothing of each other agree, on pairs of programs and on what passes make of the traps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from traps.cases_verification import PAIRS, Function, Pair, naive
from traps.naive import NAIVE
from traps.scoring import apply, available

from autograder.traps.oracle import differences
from autograder.traps.table import TRAPS
from autograder.traps.trap import Trap
from fxopt_core.verification import Tolerance, check_equivalence

ONLY_A_SESSION_SHOWS = {
    "subexpressions: across a grad mode switch": "its inputs ask for no gradients",
    "dead code: grad mode switch": "its inputs ask for no gradients",
    "folding: grad mode of a constant": "its inputs ask for no gradients; other weights are loaded",
    "folding: persistent buffer": "other weights are loaded",
    "dead code: assertion": "only some values trip it",
    "dead code: unknown function": "what a function of Python does besides is not looked at",
}
"""What the session of calls in `oracle.py` sees and one call after another does not, each with the reason."""

NOT_COMPARABLE = {
    "subexpressions: unknown function called twice": "it counts its calls across both programs",
    "folding: unknown function of a constant": "it counts its calls across both programs",
    "conv+BN: statistics that would be broadcast": "it always raises, and there is nothing to compare",
}
"""Programs that one call after another cannot compare, each with the reason."""


def named(case: Pair | Trap) -> str:
    return case.name.replace(": ", "-").replace(" ", "_")


class AsModule(nn.Module):
    """A function, for the oracle, which wants modules."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class UnderAutocast(AsModule):
    """A program as a caller runs it who casts automatically."""

    def forward(self, *inputs: Any) -> Any:
        with torch.autocast("cpu"):
            return self.function(*inputs)


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_verification_knows_the_same_from_the_similar(pair: Pair) -> None:
    one, other = pair.programs()
    found = check_equivalence(one, other, pair.inputs, **pair.options)
    assert found.equal == pair.same, f"{pair.about} {found}"


@pytest.mark.parametrize("pair", PAIRS, ids=named)
def test_the_oracle_says_so_too(pair: Pair) -> None:
    one, other = (program if isinstance(program, nn.Module) else AsModule(program) for program in pair.programs())
    assert (differences(one, other, pair.inputs) == []) == pair.same


def test_comparing_results_on_the_example_is_mostly_wrong() -> None:
    verdicts = [naive(*pair.programs(), copy.deepcopy(pair.inputs)) == pair.same for pair in PAIRS]
    assert verdicts.count(False) > len(PAIRS) / 2


def equivalent(trap: Trap, *, ours: bool) -> bool:
    """What `check_equivalence` says of what our pass, or a naive one, makes of a trap."""
    (original, inputs), (transformed, _) = trap.program(), trap.program()
    if ours:
        apply(trap, transformed)
    else:
        NAIVE[trap.pass_name](transformed)
        transformed.recompile()
    programs = (original, transformed)
    if trap.under_autocast and not ours:
        programs = (UnderAutocast(original), UnderAutocast(transformed))
    return check_equivalence(
        *programs,
        inputs,
        tolerance=Tolerance(relative=trap.tolerance),
        gradients="all" if trap.trains else "inputs",
    ).equal


@pytest.mark.parametrize(
    "trap",
    [trap for trap in TRAPS if available(trap) and not trap.raises and trap.name not in NOT_COMPARABLE],
    ids=named,
)
def test_verification_finds_our_passes_right(trap: Trap) -> None:
    assert equivalent(trap, ours=True)


@pytest.mark.parametrize(
    "trap",
    [
        trap
        for trap in TRAPS
        if trap.must_change is False and trap.pass_name in NAIVE and trap.name not in ONLY_A_SESSION_SHOWS
    ],
    ids=named,
)
def test_verification_finds_a_naive_pass_wrong(trap: Trap) -> None:
    assert not equivalent(trap, ours=False)


def test_every_exception_is_a_trap() -> None:
    assert {*ONLY_A_SESSION_SHOWS, *NOT_COMPARABLE} <= {trap.name for trap in TRAPS}
