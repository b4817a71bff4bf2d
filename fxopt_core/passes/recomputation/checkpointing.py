"""Modules that forget what they saved for backward and compute it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint


class Recomputed(nn.Module):
    """Mixed into the class of a module: its forward is checkpointed wherever gradients are recorded.

    Names, parameters, hooks and `isinstance` stay what they were. Dropout draws the same numbers again, and running
    statistics are updated once.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; only its inputs are kept for backward."""
        if not torch.is_grad_enabled():
            return super().forward(*args, **kwargs)
        contexts = partial(_contexts, self)
        return checkpoint(super().forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)

    def __reduce__(self) -> Any:
        return _restore, (type(self).__mro__[2],), self.__dict__


def recompute_segments(model: nn.Module, names: Iterable[str]) -> nn.Module:
    """Have the named submodules recomputed, in place.

    Args:
        model: is changed.
        names: of submodules, as in `model.named_modules()`. One may lie within another: then the inner one is
            forgotten again while the outer one is computed again.

    Raises:
        AttributeError: there is no such submodule.
    """
    for name in names:
        module = model.get_submodule(name)
        if not isinstance(module, Recomputed):
            module.__class__ = _recomputed(type(module))
    return model


def _recomputed(kind: type[nn.Module]) -> type[nn.Module]:
    return type(kind.__name__, (Recomputed, kind), {"__doc__": kind.__doc__, "__module__": kind.__module__})


def _restore(kind: type[nn.Module]) -> nn.Module:
    """An empty module for `copy` and `pickle` to fill: a class made here cannot be imported by its name."""
    made = _recomputed(kind)
    return made.__new__(made)


def _contexts(module: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Around the first and around the second forward."""
    return nullcontext(), _spare(module)


@contextmanager
def _spare(module: nn.Module) -> Iterator[None]:
    """Let normalisation layers update copies of their running statistics, which their output does not depend on."""
    layers = [layer for layer in module.modules() if isinstance(layer, _NormBase) and layer.training]
    kept = [dict(layer._buffers) for layer in layers]
    for layer in layers:
        for name, buffer in layer._buffers.items():
            layer._buffers[name] = None if buffer is None else buffer.clone()
    try:
        yield
    finally:
        for layer, buffers in zip(layers, kept, strict=True):
            layer._buffers.update(buffers)
