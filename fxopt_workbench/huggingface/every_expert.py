"""Experts that Python goes through one by one: all of them, instead of those that some token was sent to.

Which experts some token was sent to depends on values, so no graph can hold a loop over these. A loop over all of them
it can: an expert without tokens adds nothing to any token. In transformers, DBRX, LongCat Flash, Switch Transformers
and NLLB-MoE have such a loop and no other implementation to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxopt_workbench.huggingface.sources import source_of_forward


def go_through_every_expert(model: torch.nn.Module) -> bool:
    """Let modules of experts go through all of them; whether there are any that choose by `nonzero`."""
    found = [module for module in model.modules() if _chooses(module)]
    for module in found:
        setattr(module, "forward", _with_every_expert(module.forward, getattr(module, "num_experts", None)))  # noqa: B010
    return bool(found)


def _chooses(module: torch.nn.Module) -> bool:
    return type(module).__name__.endswith("Experts") and "nonzero" in source_of_forward(module)


def _with_every_expert(forward: Callable[..., Any], count: Any) -> Callable[..., Any]:
    @wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _EveryExpert(count):
            return forward(*args, **kwargs)

    return call


class _Number(list[int]):
    """The number of an expert, in place of the tensor of one element that `nonzero` gives in each row."""

    def item(self) -> int:
        return self[0]


class _EveryExpert(TorchFunctionMode):
    """Answers which experts some token was sent to with all of them, and whether an expert has tokens with yes.

    Args:
        count: how many experts there are; masks may have a place more, for tokens that no expert gets. `None` takes
            all places for experts.
    """

    def __init__(self, count: int | None) -> None:
        super().__init__()
        self._count = count

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in (torch.nonzero, torch.Tensor.nonzero) and args[0].dtype == torch.bool and args[0].dim() == 1:
            places = int(args[0].shape[0])
            return [_Number([number]) for number in range(places if self._count is None else min(self._count, places))]
        given = function(*args, **(kwargs or {}))
        if function is torch.Tensor.numel and isinstance(given, torch.SymInt):
            return torch.sym_max(given, 1)
        return given
