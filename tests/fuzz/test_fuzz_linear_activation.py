"""Random programs of layers, gelu, writes, views and modes do the same once linear layers and gelu are one operator.

The programs of `test_fuzz_passes` are smaller than what this pass touches, and put gelu behind a layer hardly ever.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from fuzz.test_fuzz_passes import PHASES, PROGRAMS, WANTED
from hypothesis import HealthCheck, given, settings
from torch import fx
from torch.nn import functional

from autograder.traps import random_programs
from autograder.traps.oracle import differences
from autograder.traps.random_programs import CALLS, LITERALS, Program, Root, function
from fxopt_core.optimizer import run_passes
from fxopt_core.passes import choose_passes
from fxopt_core.passes.linear_activation_fusion import WORTHWHILE

aten = torch.ops.aten

EXAMPLES = int(WANTED or "1000") // 5
TANH = {"approximate": "tanh"}


def layers(x: Any, y: Any) -> list[random_programs.Call]:
    return [
        ("call_module", "linear", (x,), {}), function(functional.linear, x, y), function(aten.linear.default, x, y),
        function(aten.mm.default, x, y), function(aten.addmm.default, x, y, x), function(functional.linear, y, x, x),
    ]  # fmt: skip


def blocks(source: random.Random, inputs: tuple[torch.Tensor, ...], most_calls: int) -> Program:
    """Layers with gelu behind, and something in between."""
    program = Program(fx.Graph(), Root())
    for number, tensor in enumerate(copy.deepcopy(inputs)):
        program.note(program.graph.placeholder(f"x{number}"), tensor)
    for name in ("weight", "tied", "state"):
        program.call("get_attr", name, (), {})

    def pick(choices: Iterable[Any]) -> Any:
        return source.choice(list(choices))

    for _ in range(source.randint(1, 4)):
        program.call(*pick(layers(pick(program.values), pick(program.values))))
        layer = list(program.values)[-1]
        kind = pick(("nothing", "nothing", "write", "view", "mode", "attribute"))
        if kind != "nothing":
            program.call(*pick(CALLS[kind](pick(program.values), pick(program.values), pick(LITERALS))))
        program.call(*pick((function(functional.gelu, layer, **TANH), function(aten.gelu.default, layer, **TANH))))
    return program


def test_layers_and_gelu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_programs, "_program", blocks)
    for activation in WORTHWHILE:
        monkeypatch.setitem(WORTHWHILE, activation, 0)
    fused = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
        derandomize=WANTED is None,
    )
    @given(PROGRAMS)
    def check(program: tuple[fx.GraphModule, tuple[torch.Tensor, ...]]) -> None:
        nonlocal fused
        module, inputs = program
        result = run_passes(module, choose_passes("linear_activation_fusion"))
        assert result.failures == []
        fused += bool(result.rewrites)
        if result.rewrites:
            inputs = tuple(tensor.detach() for tensor in inputs)
            # They share their weights, and the oracle writes to what it gets.
            original, optimized = copy.deepcopy(module), copy.deepcopy(result.graph_module)
            found = differences(original, optimized, inputs, tolerance=1e-4, raises=True)
            assert found == [], f"{found}\n{module.graph}\n{result.graph_module.graph}"

    check()
    assert fused > EXAMPLES // 10, "the programs give the pass nothing to do"
