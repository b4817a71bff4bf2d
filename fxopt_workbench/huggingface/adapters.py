"""What a HuggingFace model offers that makes it easier to capture, done to a copy of it.

transformers itself is not imported: a model that has a `config` with these settings is taken by its settings.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from fxopt_core.capture.extensions import Adapted
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_workbench.huggingface.conversions import leave_converted_modules
from fxopt_workbench.huggingface.every_expert import go_through_every_expert

_EXPERTS = "_experts_implementation"


def adapted_models(model: Model, outputs: Any) -> Iterator[Adapted]:
    """Copies of the model with one more adaptation at a time, as far as they change anything.

    Args:
        model: the caller's; stays as it is.
        outputs: what it returned for the example.
    """
    current = Adapted(model)
    ways = (
        *(_without_cache, _with_grouped_experts, _without_conversions, _with_every_expert),
        *(_with_tuple, _with_eager_attention),
    )
    for adapt in ways if _configurations(model) else ():
        copied: Any = private_copy(current.model)[0]
        description = adapt(copied, outputs)
        if description is not None:
            without = frozenset(_objects(outputs)) if adapt is _without_cache else current.without
            current = Adapted(copied, (*current.adaptations, description), without)
            yield current


def returned_cache(model: Model, outputs: Any) -> str | None:
    """The cache in a result that can be switched off, such as `past_key_values, a DynamicCache`; else `None`.

    Dynamo and export know some classes of cache, but a graph that returns one needs that class to be used.
    """
    if not any(getattr(one, "use_cache", False) for one in _configurations(model)):
        return None
    return "; ".join(f"{name}, a {type(value).__name__}" for name, value in _objects(outputs).items()) or None


def _objects(outputs: Any) -> dict[str, Any]:
    """The entries of a result that are neither tensors nor containers of them."""
    plain = (torch.Tensor, tuple, list, Mapping, int, float, bool, str, type(None))
    entries = outputs.items() if isinstance(outputs, Mapping) else ()
    return {name: value for name, value in entries if not isinstance(value, plain)}


def _without_cache(model: torch.nn.Module, outputs: Any) -> str | None:
    configurations = [one for one in _configurations(model) if getattr(one, "use_cache", False)]
    if not configurations or not isinstance(outputs, Mapping):
        return None
    for one in configurations:
        one.use_cache = False
    lacking = ", ".join(_objects(outputs))
    return "use_cache=False" + (f" (the result lacks {lacking})" if lacking else "")


def _with_grouped_experts(model: torch.nn.Module, outputs: Any) -> str | None:
    """All experts in one operator, where Python goes through those that some token was sent to."""
    if not _has_grouped_experts(model):
        return None
    configurations = [one for one in _configurations(model) if getattr(one, _EXPERTS, None) == "eager"]
    for one in configurations:
        setattr(one, _EXPERTS, "grouped_mm")
    return 'experts implementation "grouped_mm"' if configurations else None


def _has_grouped_experts(model: torch.nn.Module) -> bool:
    return bool(getattr(model, "_can_set_experts_implementation", bool)())


def _without_conversions(model: torch.nn.Module, outputs: Any) -> str | None:
    return "modules that have the dtype are not converted to it" if leave_converted_modules(model) else None


def _with_every_expert(model: torch.nn.Module, outputs: Any) -> str | None:
    """All experts one by one, where no operator can be chosen for them."""
    if _has_grouped_experts(model) or not go_through_every_expert(model):
        return None
    return "every expert is gone through"


def _with_tuple(model: torch.nn.Module, outputs: Any) -> str | None:
    parameters = inspect.signature(model.forward).parameters.values()
    if not isinstance(outputs, Mapping) or not any(
        one.name == "return_dict" or one.kind is one.VAR_KEYWORD for one in parameters
    ):
        return None
    # As an argument: in the configuration it would reach inner models too, whose callers may expect a dictionary.
    setattr(model, "forward", partial(model.forward, return_dict=False))  # noqa: B010  mypy knows it as a method
    return "return_dict=False"


def _with_eager_attention(model: torch.nn.Module, outputs: Any) -> str | None:
    configurations = [
        one for one in _configurations(model) if getattr(one, "_attn_implementation", None) not in (None, "eager")
    ]
    for one in configurations:
        one._attn_implementation = "eager"
    return 'attention implementation "eager"' if configurations else None


def _configurations(model: Model) -> list[Any]:
    """The configurations of the model and of its parts, each once; empty for what is no HuggingFace model."""
    if not isinstance(model, torch.nn.Module):
        return []
    found = [module.config for module in model.modules() if hasattr(getattr(module, "config", None), "to_dict")]
    return list({id(one): one for one in found}.values())
