"""The profiles that the units' scripts print."""

from __future__ import annotations

import torch

from fxopt_workbench.internals.profiling import ROWS, profiled

OPERATORS = (
    "abs acos acosh add angle asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac "
    "lgamma log log10 log1p log2 logit neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc"
).split()


def test_a_range_is_shown_however_many_operators_took_longer() -> None:
    assert len(OPERATORS) > ROWS
    numbers = torch.rand(200_000)

    def long() -> None:
        for name in OPERATORS:
            if name == "add":
                torch.add(numbers, numbers)
            else:
                getattr(torch, name)(numbers)

    shown = profiled({"much work": long, "nothing at all": lambda: None})
    lines = shown.splitlines()
    assert any("much work" in line for line in lines)
    assert any("nothing at all" in line for line in lines)
    assert sum("aten::" in line for line in lines) >= ROWS
