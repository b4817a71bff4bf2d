"""The inputs of every check for one model, as far as the model itself takes them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from fxopt_workbench.huggingface.coverage.checks import CHECKS, EXAMPLE, Sizes
from fxopt_workbench.huggingface.coverage.inputs import Plan, make_inputs, shapes_of
from fxopt_workbench.huggingface.coverage.outputs import compare, named_tensors

SEED = 20_26

_MASK = re.compile(r"^(?!output_)(\w*_)?mask(s|ed)?(?!_labels)(_|$)")

Inputs = dict[str, torch.Tensor]


def run_seeded(function: Callable[..., Any], inputs: Inputs, seed: int = SEED) -> Any:
    """Call with copies of the inputs, without gradients, and with the same random numbers each time."""
    torch.random.default_generator.manual_seed(seed)
    with torch.no_grad():
        return function(**{name: value.clone() for name, value in inputs.items()})


def takes(model: torch.nn.Module, inputs: Inputs) -> bool:
    """Whether the model itself takes these inputs."""
    try:
        run_seeded(model, inputs)
    except Exception:  # nothing to compare with
        return False
    return True


def variants(model: torch.nn.Module, plan: Plan) -> dict[str, Inputs]:
    """Check → inputs, for every check of `CHECKS` that means anything for this plan and that the model itself takes."""
    found: dict[str, Inputs] = {}
    for seed, (check, candidates) in enumerate(CHECKS.items()):
        for sizes in candidates:
            inputs = make_inputs(model.config, plan, sizes, seed)
            if sizes == EXAMPLE or (_differs(inputs, model, plan, seed) and takes(model, inputs)):
                found[check] = inputs
                break
    return found


def _differs(inputs: Inputs, model: torch.nn.Module, plan: Plan, seed: int) -> bool:
    """Whether these sizes make anything else of the same values than those of the example do."""
    usual = make_inputs(model.config, plan, EXAMPLE, seed)
    return any(
        value.dtype != usual[name].dtype or not torch.equal(value, usual[name]) for name, value in inputs.items()
    )


def optional_masks(model: torch.nn.Module, plan: Plan) -> list[str]:
    """The masks that the model could be called with and the plan leaves out."""
    given = dict(plan.choices)
    names = [name for name in inspect.signature(model.forward).parameters if _MASK.search(name) and name not in given]
    # Without anything to attend to, its mask means nothing.
    return [name for name in names if name != "encoder_attention_mask" or "encoder_hidden_states" in given]


def with_masks(model: torch.nn.Module, plan: Plan) -> Plan:
    """The plan with every mask in a shape that the model heeds, optional ones too, if that costs none of the checks."""
    checks = set(variants(model, plan))
    unheeded = [name for name, _ in plan.choices if _MASK.search(name) and not _heeds(model, plan, name)]
    for name in unheeded + optional_masks(model, plan):
        rest = tuple(choice for choice in plan.choices if choice[0] != name)
        for index in _likeliest_first(model, plan, name):
            tried = replace(plan, choices=(*rest, (name, index)))
            if _heeds(model, tried, name) and checks <= (passed := set(variants(model, tried))):
                plan, checks = tried, passed
                break
    return plan


def _likeliest_first(model: torch.nn.Module, plan: Plan, name: str) -> list[int]:
    """The shapes that a mask may have; first those that lie along something that is given."""
    given = make_inputs(model.config, plan).values()
    along = {shape for value in given for shape in (value.shape, value.shape[:2], value.shape[::2])}
    indices = range(len(shapes_of(name, model.config)))
    shapes = [make_inputs(model.config, Plan(((name, index),), plan.image_tokens))[name].shape for index in indices]
    return sorted(indices, key=lambda index: shapes[index] not in along)


def _heeds(model: torch.nn.Module, plan: Plan, name: str) -> bool:
    """Whether the model runs with this mask, and gives something else without it or with padding in it."""
    inputs = make_inputs(model.config, plan)
    padded = inputs | {name: make_inputs(model.config, plan, Sizes(padding="right"))[name]}
    if not takes(model, inputs) or not takes(model, padded):
        return False
    usual = named_tensors(run_seeded(model, inputs))
    others = [padded] + [one for one in [{key: inputs[key] for key in inputs if key != name}] if takes(model, one)]
    return any(not compare(list(named_tensors(run_seeded(model, one)).values()), usual)[1] for one in others)
