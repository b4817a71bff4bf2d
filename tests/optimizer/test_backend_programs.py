"""What people give to `torch.compile`, through the backend: each call does what eager does, to everything."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from backend_programs import PROGRAMS, Program
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> None:
    torch._dynamo.reset()


def run(program: Program, function: Any, model: Any, calls: list[tuple[Any, ...]]) -> list[Any]:
    """Everything that can be seen of calls in a row: results, inputs, gradients, state, random numbers."""
    seen: list[Any] = []
    for number, arguments in enumerate(calls):
        torch.manual_seed(number)
        given = copy.deepcopy(arguments)
        if program.gradients:
            tree_map_only(torch.Tensor, lambda one: one.requires_grad_(one.is_floating_point()), given[:1])
        with program.mode():
            result = function(*given)
        leaves = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
        losses = [one.real.float().square().sum() for one in leaves if one.requires_grad]
        if program.gradients and losses:
            sum(losses, torch.zeros(())).backward()
        inputs = [one for one in tree_leaves(given) if isinstance(one, torch.Tensor)]
        shared = [[one is other for other in (*leaves, *inputs)] for one in leaves]
        state = dict(model.named_buffers()) | dict(model.named_parameters()) if isinstance(model, nn.Module) else {}
        gradients = [one.grad for one in (*inputs, *state.values()) if one.is_leaf]
        parts = (leaves, inputs, gradients, state, torch.get_rng_state())
        seen += [copy.deepcopy(tree_map_only(torch.Tensor, torch.Tensor.detach, parts)), shared]
        seen.append([(one.requires_grad, one.stride(), one._is_view()) for one in leaves])
        program.between(model)
    return seen


THROUGH_AUTOGRAD = (
    "constant_in_the_function", "literal_tensor", "constant_that_is_returned_and_written", "optimiser_step",
    "statistics_in_training", "eps_changes", "sizes_after_the_second_call", "written_input", "autocast_around",
    "autocast_inside", "views_and_aliases_returned", "own_backward", "custom_operator", "checkpointed", "tied_weights",
    "mask_that_hides_everything_later",
)  # fmt: skip
"""Programs tried behind AOTAutograd, too, which functionalises what is written, and dispatches on its own."""


@pytest.mark.parametrize(
    ("name", "then"), [*((name, "eager") for name in PROGRAMS), *((name, "aot_eager") for name in THROUGH_AUTOGRAD)]
)
def test_a_program_does_what_it_does_in_eager(name: str, then: str) -> None:
    program = PROGRAMS[name]
    torch.manual_seed(0)
    model, calls = program.make()
    if isinstance(model, nn.Module):
        model.train(program.training)
    own = copy.deepcopy(model) if isinstance(model, nn.Module) else model
    wanted = run(program, own, own, calls)
    options = {"then": then, "passes": "inference"}
    compiled = torch.compile(model, backend="fxopt", options=options, **dict(program.compiled))
    found = run(program, compiled, model, calls)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
