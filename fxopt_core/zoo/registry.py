"""The models by name: finding one, building it on a device from a seed."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from fxopt_core.devices import choose_device
from fxopt_core.zoo import bert, control, loops, simple

ExampleInputs = tuple[Any, ...] | dict[str, Any]
Builder = Callable[[], tuple[nn.Module, ExampleInputs]]


@dataclass(frozen=True)
class ZooModel:
    """A model to try things on.

    Attributes:
        model: in evaluation mode, on the device asked for.
        example_inputs: a tuple of positional arguments or a dictionary of keyword arguments, on that device.
        description: what it is and what it is good for, in a sentence.
    """

    model: nn.Module
    example_inputs: ExampleInputs
    description: str


class UnknownModelError(ValueError):
    """There is no model of this name in the zoo."""


BUILDERS: dict[str, tuple[Builder, str]] = {
    "simple": (simple.build, simple.DESCRIPTION),
    "control": (control.build, control.DESCRIPTION),
    "loops": (loops.build, loops.DESCRIPTION),
    "bert": (bert.build, bert.DESCRIPTION),
}


def names() -> tuple[str, ...]:
    """Names of the models, from the plainest to the largest."""
    return tuple(BUILDERS)


def build(name: str, device: torch.device | str | None = None, seed: int = 0) -> ZooModel:
    """Build a model and example inputs.

    Weights and inputs come from the seed: they are made on the CPU, so that they agree on every device. The
    caller's random state is put back.

    Args:
        name: one of `names()`.
        device: where to put it; `None` takes `fxopt_core.devices.choose_device()`.
        seed: of weights and inputs.

    Raises:
        UnknownModelError: no such name; the message offers near ones.
        DeviceUnavailableError: the device is not there.
        ModuleNotFoundError: the model needs a package that is not installed; the message says which extra has it.
    """
    if name not in BUILDERS:
        near = difflib.get_close_matches(str(name), BUILDERS, n=2)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UnknownModelError(f"there is no model {name!r} in the zoo; the models are {', '.join(BUILDERS)}.{hint}")
    builder, description = BUILDERS[name]
    target = device if isinstance(device, torch.device) else choose_device(device)
    # Everything random is drawn on the CPU.
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        model, example_inputs = builder()
    moved = tree_map_only(torch.Tensor, lambda tensor: tensor.to(target), example_inputs)
    return ZooModel(model.eval().to(target), moved, description)
