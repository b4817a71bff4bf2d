"""The models by name: finding one, building it on a device from a seed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from fxopt_core.devices import choose_device
from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.capabilities import capabilities
from fxopt_workbench.zoo import (
    control,
    convolutional,
    files,
    huggingface,
    loops,
    multilayer,
    own,
    published,
    redundant,
    simple,
    yolo,
)
from fxopt_workbench.zoo.recipe import ExampleInputs, Recipe, SizeName


@dataclass(frozen=True)
class ZooModel:
    """A model to try things on.

    Attributes:
        model: on the device asked for, in evaluation mode unless it is one's own and was to keep its mode.
        example_inputs: a tuple of positional arguments or a dictionary of keyword arguments, on that device.
        description: what it is and what it is good for, in a sentence.
        caveats: what was done to it that its owner should know, in sentences.
    """

    model: nn.Module
    example_inputs: ExampleInputs
    description: str
    caveats: tuple[str, ...] = ()


SWITCHED = (
    "The model came in training mode and runs in evaluation mode here; fxopt optimize --preset training keeps the mode "
    "that it comes in."
)


class UnknownModelError(ValueError):
    """There is no model of this name in the zoo."""


class ModelTooLargeError(ValueError):
    """The weights of a model do not fit into this machine's memory."""


RECIPES: dict[str, Recipe] = {
    "simple": Recipe(simple.build, simple.DESCRIPTION),
    "control": Recipe(control.build, control.DESCRIPTION),
    "loops": Recipe(loops.build, loops.DESCRIPTION),
    "mlp": Recipe(multilayer.build, multilayer.DESCRIPTION),
    "cnn": Recipe(convolutional.build, convolutional.DESCRIPTION),
    "deep-cnn": Recipe(convolutional.build_deep, convolutional.DEEP_DESCRIPTION),
    "redundant": Recipe(redundant.build, redundant.DESCRIPTION),
    **huggingface.RECIPES,
    **yolo.RECIPES,
    **published.RECIPES,
}


def names(size: SizeName | None = None) -> tuple[str, ...]:
    """Names of the models, from the plainest to the largest; with a `size`, of those of that size only."""
    return tuple(name for name, recipe in RECIPES.items() if size in (None, recipe.size))


def build(
    name: str,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    seed: int = 0,
    *,
    inputs: Sequence[str] = (),
    trust: bool = False,
    keep_mode: bool = False,
) -> ZooModel:
    """Build a model and example inputs.

    Weights and inputs come from the seed: they are made on the CPU, so that they agree on every device. The
    caller's random state is put back. On the device `"meta"` nothing is allocated: tensors have shapes and no values,
    so that the largest models can be analysed in seconds.

    Args:
        name: one of `names()`, `module:factory` (see `zoo.own`), or a file (see `zoo.files`).
        device: where to put it; `None` takes `fxopt_core.devices.choose_device()`.
        dtype: of floating-point weights and inputs; `None` leaves them as they are, `float32` mostly.
        seed: of weights and inputs.
        inputs: sizes of example inputs of a model in a file, such as `1,3,224,224` or `int64:2,16`.
        trust: whether code in a file may run.
        keep_mode: leave a model of one's own in the mode, training or evaluation, in which it comes.

    Raises:
        UnknownModelError: no such name; the message offers near ones.
        ModelFileError: the file is no model, or would have to be trusted.
        OwnModelError: the name is a `module:factory` that is none, or does not give a model with inputs.
        DeviceUnavailableError: the device is not there.
        ModelTooLargeError: its weights do not fit into the memory of this machine.
        ValueError: the device has no such dtype.
        ModuleNotFoundError: the model needs a package that is not installed; the message says which extra has it.
    """
    recipe = _recipe(name, inputs, trust)
    target = _target(device)
    if dtype == torch.float64 and target.type != "meta" and not capabilities(target).float64:
        raise ValueError(f"the device {target} has no float64; choose float32, or the device cpu.")
    if recipe.size == "published" and target.type != "meta":
        _check_memory(name, build(name, "meta").model)
    # Everything random is drawn on the CPU.
    without_values = target.type == "meta" and not recipe.ready
    with torch.random.fork_rng(devices=[]), torch.device("meta" if without_values else "cpu"):
        torch.random.default_generator.manual_seed(seed)
        model, example_inputs = recipe.build()

    def move(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(target, dtype if tensor.is_floating_point() else None)

    moved = tree_map_only(torch.Tensor, move, example_inputs)
    switched = not (recipe.own and keep_mode) and _evaluation_mode(model)
    caveats = (SWITCHED,) if switched and recipe.own else ()
    return ZooModel(model.to(target, dtype), moved, recipe.description, caveats)


def _evaluation_mode(model: nn.Module) -> bool:
    """Set a model to evaluation mode; whether that changed anything."""
    if not any(module.training for module in model.modules()):
        return False
    try:
        model.eval()
    except NotImplementedError:  # exported modules have the mode of their export, and say so
        return False
    return True


def _recipe(name: str, inputs: Sequence[str], trust: bool) -> Recipe:
    if name in RECIPES and not (inputs or trust):
        return RECIPES[name]
    if files.names_a_file(name):
        return Recipe(
            partial(files.load, Path(name), inputs, trust=trust), f"From the file {name}.", ready=True, own=True
        )
    if inputs or trust:
        raise UnknownModelError(f"{name!r} is not a file; --input and --trust are for models in files.")
    if ":" in name:
        return own.recipe(name)
    hint = did_you_mean(name, RECIPES)
    raise UnknownModelError(
        f"there is no model {name!r} in the zoo.{hint} The models are {', '.join(RECIPES)}; name your own as "
        "module:factory, or as a file."
    )


def _check_memory(name: str, model: nn.Module) -> None:
    needed, here = sum(parameter.nbytes for parameter in model.parameters()), _memory()
    if needed > here:
        raise ModelTooLargeError(
            f"the weights of {name} need {needed / 1e9:.3g} GB, more than the {here / 1e9:.3g} GB of memory that this "
            'machine has; on the device "meta" it is built without weights.'
        )


def _memory() -> int:
    """Bytes of physical memory; Linux and macOS know these names."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _target(device: torch.device | str | None) -> torch.device:
    if isinstance(device, torch.device):
        return device
    return torch.device("meta") if device == "meta" else choose_device(device)
