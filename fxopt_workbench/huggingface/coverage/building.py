"""A small model of a type with seeded weights, and a way to call it that works."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from fxopt_workbench.huggingface.coverage.families import adapt_config, without_timm
from fxopt_workbench.huggingface.coverage.inputs import Plan, inner_configs, make_inputs
from fxopt_workbench.huggingface.coverage.plans import UnknownArgumentError, plans
from fxopt_workbench.huggingface.coverage.shrinking import REBUILT, Shrinker, rebuilt
from fxopt_workbench.huggingface.coverage.types import model_class
from fxopt_workbench.huggingface.coverage.variants import SEED, with_masks

LEVELS = (0, 1, 2, REBUILT)
FIRST_TRIES, LATER_TRIES = 48, 6
"""How many ways to call a model are tried: many while it is tiny, few when it is less shrunk."""

MOST_PARAMETERS = 150_000_000


class TooLargeError(RuntimeError):
    """A model has more parameters than it may have even when shrunk."""


def build(model_type: str, level: int) -> torch.nn.Module:
    """The model of a type in evaluation mode on the CPU, shrunk (see `Shrinker` for the levels).

    Weights come from a fixed seed. What transformers leaves at zero or one, and matrices that it draws so small that
    an input would hardly reach the output, get random values too: an error must be able to show.

    Raises:
        TooLargeError: it has more than `MOST_PARAMETERS` parameters.
        Exception: whatever the model's own code raises.
    """
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[model_type]()
    without_timm(config)
    Shrinker(level).shrink(config)
    adapt_config(config)
    if level == REBUILT:
        config = rebuilt(config)
    kind = model_class(model_type)
    config = _part_for(kind, config)
    with torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in kind(config).parameters())
        if size > MOST_PARAMETERS:
            raise TooLargeError(f"{size:,} parameters, more than {MOST_PARAMETERS:,}")
        torch.random.default_generator.manual_seed(SEED)
        model = kind(config).eval()
        _spread_weights(model)
    return model


def _part_for(kind: Any, config: Any) -> Any:
    """The configuration, or the one inside it that the class of the model is for."""
    if isinstance(config, getattr(kind, "config_class", None) or object):
        return config
    return next((one for one in inner_configs(config) if isinstance(one, kind.config_class)), config)


def _spread_weights(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            if bool((parameter == parameter.flatten()[:1]).all()):
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif parameter.ndim >= 2 and parameter.numel() > len(parameter):  # one number a row is a scale
                wanted = (parameter.numel() / parameter.shape[0]) ** -0.5
                parameter.mul_(max(1.0, wanted / max(float(parameter.std()), 1e-12)))
        for name, buffer in model.named_buffers():
            # Codebooks that training would fill: of equal ones every input would choose the same.
            if "embed" in name and buffer.is_floating_point() and buffer.ndim >= 2 and not bool((buffer != 0).any()):
                buffer.add_(torch.randn_like(buffer))
        for module in model.modules():
            scale = getattr(module, "weight", None) if "norm" in type(module).__name__.lower() else None
            if isinstance(scale, torch.nn.Parameter) and float(scale.mean().abs()) < 0.5:
                scale.add_(1.0)  # drawn around zero by some: nothing would pass


def build_ready(model_type: str, level: int, plan: Plan) -> torch.nn.Module:
    """The model of `build`, with batch normalisations that know the statistics of the example.

    Untrained ones would let the signal of a deep network fade, and with it every error.
    """
    model = build(model_type, level)
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train().momentum = 1.0
    try:
        if norms:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                # Some models draw random numbers in evaluation too; every process needs the same statistics.
                torch.random.default_generator.manual_seed(SEED)
                model(**make_inputs(model.config, plan))
    except ValueError:  # a single value has no variance
        for norm in norms:
            norm.reset_running_stats()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval().momentum = momentum
    return model


def find_plan(model: torch.nn.Module, tries: int) -> Plan:
    """The first of so many ways to call the model that it accepts.

    Raises:
        Exception: what the model raised at the first way, when it accepts none.
        UnknownArgumentError: it needs an argument for which no example is known.
    """
    first: Exception | None = None
    for plan in itertools.islice(plans(model), tries):
        for _ in range(2):
            try:
                with torch.no_grad():
                    model(**make_inputs(model.config, plan))
                return plan
            except Exception as error:  # whatever a model of anybody's raises at inputs that do not suit it
                first = first or error
                tokens = _image_tokens(error)
                if tokens is None or plan.image_tokens:
                    break
                plan = replace(plan, image_tokens=tokens)
    raise first if first is not None else ValueError("there is no way to call it")


def _image_tokens(error: Exception) -> int | None:
    """How many tokens each text needs for its image: models say how many features there are for none."""
    match = re.search(r"tokens: 0.*?features:? ?(\d+)", str(error))
    return max(1, int(match[1]) // 2) if match else None


def build_and_plan(model_type: str) -> tuple[torch.nn.Module, int, Plan]:
    """The most shrunk model of a type that runs, its level, and how to call it.

    Raises:
        Exception: what the most shrunk model raised, when none runs.
        NotImplementedError, UnknownArgumentError, ImportError: there is no way to call it, or a package is missing.
    """
    first: Exception | None = None
    for level in LEVELS:
        try:
            plan = find_plan(build(model_type, level), FIRST_TRIES if level == LEVELS[0] else LATER_TRIES)
            model = build_ready(model_type, level, plan)
            return model, level, with_masks(model, plan)
        except (NotImplementedError, UnknownArgumentError, ImportError):
            raise  # these have nothing to do with sizes
        except Exception as error:  # sizes that do not fit each other can end in anything
            first = first or error
    assert first is not None
    raise first
