"""What a call changes: parameters, buffers and attributes of the model, and its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

# torch.compile notes on the module that it compiled it.
_INTERNAL = frozenset(vars(torch.nn.Module())) | {"_is_torch_compile"}
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""Types whose values are compared with `==`."""


def changed(before: Any, after: Any, path: str) -> Iterator[str]:
    """Paths at which two copies of the same thing differ: `self.norm.running_mean`, `cache.keys[0]`.

    Tensors, plain values, containers and attributes of objects are compared; other values (functions, generators,
    sets) are taken to be the same.
    """
    yield from _changed(before, after, path, set())


def _changed(before: Any, after: Any, path: str, seen: set[int]) -> Iterator[str]:
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        if not same_tensor(before, after):
            yield path
    elif _class_of(before) is not _class_of(after):
        yield path
    elif isinstance(before, PLAIN):
        # NaN is not equal to itself.
        if before != after and not (before != before and after != after):
            yield path
    elif id(before) not in seen:
        seen.add(id(before))
        old, new = _parts(before), _parts(after)
        yield from (f"{path}{key}" for key in sorted(old.keys() ^ new.keys()))
        for key in [key for key in old if key in new]:
            yield from _changed(old[key], new[key], f"{path}{key}", seen)


def _class_of(value: Any) -> type:
    # torch.fx makes a class for each graph module, of copies too.
    return type(value).__mro__[1] if isinstance(value, fx.GraphModule) else type(value)


def same_tensor(before: torch.Tensor, after: torch.Tensor) -> bool:
    """Whether shape, dtype and every value agree; NaN agrees with NaN."""
    if before.shape != after.shape or before.dtype != after.dtype or before.is_meta:
        return before.shape == after.shape and before.dtype == after.dtype
    return bool(((before == after) | ((before != before) & (after != after))).all())


def _parts(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.nn.Module):
        # What torch.fx keeps about a graph module is its own: it may make code at the first call.
        kinds = torch.Tensor if isinstance(value, fx.GraphModule) else object
        own = {key: one for key, one in vars(value).items() if key not in _INTERNAL and isinstance(one, kinds)}
        held = {**value._parameters, **value._buffers, **value._modules}
        return {f".{key}": one for key, one in {**own, **held}.items()}
    if isinstance(value, Mapping):
        return {f"[{key!r}]": one for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return {f"[{index}]": one for index, one in enumerate(value)}
    if callable(value):
        return {}
    return {f".{key}": one for key, one in getattr(value, "__dict__", {}).items()}
