"""Small programs that a naive pass gets wrong: ours must get every one right."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
import torch
from torch import fx, nn
from traps.naive import NAIVE
from traps.scoring import (
    RIGHT,
    WRONG,
    Outcome,
    available,
    of_peers,
    outcome_of_ours,
    outcome_of_peer,
    scores,
    scores_of_comparisons,
)

from autograder.traps.oracle import differences
from autograder.traps.table import TRAPS
from autograder.traps.trap import Trap, numbers
from fxopt_core.passes import LEGALITY, disabled

WAITING: frozenset[str] = frozenset()
"""Passes that traps are there for and that are not yet written."""

WITHOUT_TRAPS = frozenset({"recomputation"})
"""Passes whose traps are not yet written."""

REGISTERED = [trap for trap in TRAPS if available(trap)]
TO_BE_REFUSED = [trap for trap in REGISTERED if trap.must_change is False and trap.by_check]


def named(trap: Trap) -> str:
    return trap.name.replace(": ", "-").replace(" ", "_")


def test_there_are_traps_of_every_kind() -> None:
    assert len(TRAPS) >= 60
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)
    assert sum(trap.must_change is True for trap in TRAPS) >= len(TRAPS) / 4
    assert {trap.pass_name for trap in TRAPS if not available(trap)} == WAITING


@pytest.mark.parametrize(
    ("value", "other", "tolerance", "same"),
    [
        (1e-4, 1e-4 + 1e-6, 1e-4, True),  # what is left of larger numbers, as in the tail of gelu
        (1e-4, 1e-4 + 1e-6, 0.0, False),
        (1e-4, 1e-4 + 1e-5, 1e-4, False),
        (1.0, 1.0 + 5e-5, 1e-4, True),
        (1.0, 1.0 + 2e-4, 1e-4, False),
        (math.inf, math.nan, 1e-4, False),
    ],
)
def test_what_the_oracle_takes_for_rounding(value: float, other: float, tolerance: float, same: bool) -> None:
    found = differences(_Adds(value), _Adds(other), (torch.zeros(2),), tolerance=tolerance)
    assert (found == []) == same, found


class _Adds(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0 + self.number


@cache
def ours(trap: Trap) -> Outcome:
    """The outcome with all checks on; the tests that switch some off do not ask here."""
    return outcome_of_ours(trap)


@pytest.mark.parametrize("trap", REGISTERED, ids=named)
def test_our_pass_is_right(trap: Trap) -> None:
    outcome = ours(trap)
    assert outcome.verdict == RIGHT, f"{trap.about} {outcome.verdict}: {outcome.reason}"


@pytest.mark.parametrize("trap", [trap for trap in TO_BE_REFUSED if trap.pass_name in NAIVE], ids=named)
def test_a_naive_pass_is_wrong(trap: Trap) -> None:
    """A trap that the first pass that comes to mind gets right would be none."""

    def naive(trap: Trap, module: fx.GraphModule, inputs: tuple[Any, ...]) -> nn.Module:
        NAIVE[trap.pass_name](module)
        module.recompile()
        return module

    assert outcome_of_peer(trap, naive).verdict == WRONG


@pytest.mark.parametrize("trap", [trap for trap in TO_BE_REFUSED if trap.pass_name not in NAIVE], ids=named)
def test_our_pass_without_any_check_is_wrong(trap: Trap) -> None:
    """The same for passes of which no naive one is at hand."""
    with ExitStack() as without:
        for check in LEGALITY:
            without.enter_context(disabled(check))
        assert falls(trap)


@pytest.mark.parametrize("trap", TRAPS, ids=named)
def test_a_program_is_the_same_as_itself(trap: Trap) -> None:
    """Else the oracle would call everything wrong."""
    (one, inputs), (other, _) = trap.program(), trap.program()
    assert differences(one, other, inputs, raises=trap.raises) == []


def pass_of(check: str) -> str:
    return check.partition(":")[0]


@pytest.mark.parametrize("check", [check for check in LEGALITY if pass_of(check) not in WITHOUT_TRAPS])
def test_every_refusal_is_needed(check: str) -> None:
    """With one check switched off, some trap is no longer gone round."""
    own = [trap for trap in REGISTERED if trap.pass_name == pass_of(check)]
    assert own, f"no trap runs the pass of {check!r}"
    with disabled(check):
        assert any(map(falls, sorted(own, key=lambda trap: trap.must_change is not False))), (
            f"{check!r} is never missed"
        )


def falls(trap: Trap) -> bool:
    try:
        return outcome_of_ours(trap).verdict != RIGHT
    except Exception:  # a pass without one of its checks may do anything
        return True


def test_both_scores(print_at_the_end: Callable[[list[tuple[str, str, int, int, int]]], None]) -> None:
    """Ours is full; PyTorch's own passes are judged by the same oracle, and the summary prints both."""
    found = {trap: ({"fxopt": ours(trap)} if available(trap) else {}) | of_peers(trap) for trap in TRAPS}
    print_at_the_end([*scores_of_comparisons(), *scores(found)])
    assert [judged["fxopt"].verdict for judged in found.values() if "fxopt" in judged] == [RIGHT] * len(REGISTERED)


class Original(nn.Module):
    """Something of everything that the oracle looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(3))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count += 1
        total = x * self.weight + torch.rand_like(x) * 0 + torch.rand_like(x)
        return {"total": total, "view": total[:2], "zero": x.abs() * 0.0}


class NoWrite(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        count = self.count
        self._buffers["count"] = count.clone()
        result = super().forward(x)
        self._buffers["count"] = count
        return result


class OneDrawFewer(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count += 1
        state = torch.get_rng_state()
        torch.rand_like(x)
        total = x * self.weight + torch.rand_like(x)
        torch.set_rng_state(state)
        return {"total": total, "view": total[:2], "zero": x.abs() * 0.0}


class CopyInsteadOfView(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        return result | {"view": result["view"].clone()}


class OtherZero(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        return result | {"zero": torch.where(x == 0, -result["zero"], result["zero"])}


class NanBecomesZero(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        return result | {"zero": torch.zeros_like(result["zero"])}


class NoGradient(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: value.detach() for name, value in super().forward(x).items()}


class GradientOfHalf(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        zero = result["zero"]
        return result | {"zero": zero + (x - x.detach()) * 0.5 if x.requires_grad else zero}


class OtherDtype(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        return result | {"zero": result["zero"].double()}


class OtherStride(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        return result | {"zero": torch.stack([result["zero"]] * 2, dim=1)[:, 0]}


class OtherStructure(Original):
    def forward(self, x: torch.Tensor) -> Any:
        return tuple(super().forward(x).values())


class FrozenWeight(Original):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = self.weight.detach().clone()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return super().forward(x * (self.frozen / self.weight))


class WritesInput(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        with torch.no_grad():
            x.add_(1)
        return result


class LeavesGradOff(Original):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        result = super().forward(x)
        torch._C._set_grad_enabled(False)
        return result


MUTANTS = [
    NoWrite, OneDrawFewer, CopyInsteadOfView, OtherZero, NanBecomesZero, NoGradient, GradientOfHalf, OtherDtype,
    OtherStride, OtherStructure, FrozenWeight, WritesInput, LeavesGradOff,
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_oracle_sees_every_kind_of_difference(mutant: type[Original]) -> None:
    inputs = (numbers(3),)
    assert differences(Original(), Original(), inputs) == []
    assert differences(Original(), mutant(), inputs)
    assert torch.equal(inputs[0], numbers(3))


def test_the_oracle_refuses_programs_that_always_raise() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="the original raises on all inputs"):
        differences(layer, copy.deepcopy(layer), (torch.zeros(4),))


def test_a_state_that_is_lost_is_seen() -> None:
    kept = Original()
    lost = copy.deepcopy(kept)
    lost._non_persistent_buffers_set.add("count")
    assert differences(kept, lost, (numbers(3),)) == ["state_dict lost ['count']"]
