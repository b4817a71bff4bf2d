"""Random programs do the same after the passes as before, in everything that can be observed.

`make fuzz N=20000` runs so many through each preset; a failure that it finds becomes a small named test.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from passes.programs import observe
from torch import fx

from autograder.traps.random_programs import random_program
from fxopt_core.optimizer import run_passes
from fxopt_core.passes import PRESETS, choose_passes

# A failure is shown as it was found: making it smaller takes minutes. Remove this to let Hypothesis do so.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
WANTED = os.environ.get("FXOPT_FUZZ")
EXAMPLES = int(WANTED or "400")


PROGRAMS = st.randoms(use_true_random=False).map(random_program)


def gradients(module: fx.GraphModule, inputs: tuple[torch.Tensor, ...]) -> list[Any]:
    """Gradients of the first input and the parameters; `None` for none, the error's type where there is one."""
    module, inputs = copy.deepcopy((module, inputs))
    torch.manual_seed(0)
    with torch.enable_grad():
        outputs = [tensor for tensor in module(*inputs) if tensor.requires_grad and tensor.is_floating_point()]
    if not outputs:
        return []
    try:
        torch.autograd.backward([tensor.sum() for tensor in outputs])
    except RuntimeError as error:
        return [type(error)]
    tensors = [inputs[0], *module.parameters()]
    return [tensor.grad for tensor in tensors if tensor.is_leaf]


def same_gradients(before: list[Any], after: list[Any]) -> bool:
    """Gradients that are sums may be added up in another order.

    Of infinities that shows: 0 · inf + 1 · inf is NaN, (0 + 1) · inf is not. So only finite gradients are compared.
    Where a write destroys what the backward pass needs, it raises; it need not do so once a dead write is gone.
    """
    if before == [RuntimeError]:
        return True
    if len(before) != len(after):
        return False
    for one, other in zip(before, after, strict=True):
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            if one is not other:
                return False
        elif one.shape != other.shape or not torch.allclose(
            one[one.isfinite()], other[one.isfinite()], rtol=1e-4, atol=1e-5
        ):
            return False
    return True


@pytest.mark.parametrize("preset", PRESETS)
def test_programs_do_the_same_after_the_passes(preset: str) -> None:
    changed = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
        derandomize=WANTED is None,
    )
    @given(PROGRAMS)
    def check(program: tuple[fx.GraphModule, tuple[torch.Tensor, ...]]) -> None:
        nonlocal changed
        module, inputs = program
        result = run_passes(module, choose_passes(preset))
        assert result.failures == []
        optimized = result.graph_module
        changed += bool(result.rewrites)
        assert observe(optimized, *inputs) == observe(module, *inputs), f"{module.graph}\n{optimized.graph}"
        before, after = gradients(module, inputs), gradients(optimized, inputs)
        assert same_gradients(before, after), f"{before}\n{after}\n{module.graph}\n{optimized.graph}"

    check()
    assert changed > EXAMPLES // 4, "the programs give the passes nothing to do"


def test_merging_two_uses_may_turn_a_gradient_of_nan_into_infinity() -> None:
    """Found by fuzzing: what is merged gets its gradients summed before they meet an infinity, and not after."""

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            first, second = x * self.weight, x * self.weight
            return first.neg(), first.abs(), second

    module, inputs = fx.symbolic_trace(Twice()), (torch.tensor([torch.inf, 3.0]),)
    merged = run_passes(module, choose_passes("training"))
    assert [rewrite.rule for rewrite in merged.rewrites] == ["common_subexpressions"]
    assert observe(merged.graph_module, *inputs) == observe(module, *inputs)
    before, after = gradients(module, inputs), gradients(merged.graph_module, inputs)
    assert before[1].isnan().tolist() == [True, False]
    assert after[1].tolist() == [torch.inf, 3.0]
    assert same_gradients(before, after)
    assert not same_gradients(before, [after[0], torch.tensor([torch.inf, 4.0])])
    assert not same_gradients(before, [after[0], torch.tensor([0.0, torch.nan])])
