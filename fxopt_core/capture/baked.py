"""Tensors whose values have gone into constants of a graph, and whether they still have these values."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass
class _Held:
    """One such tensor.

    Attributes:
        holder: what a module holds by name.
        name: the tensor's own.
        seen: the tensor as it was when its values were looked at: which object, its memory, how often written to.
        checksum: of its values; `None` of a tensor whose values cannot be read, which is not watched.
    """

    holder: dict[str, Any]
    name: str
    seen: tuple[int, int, int]
    checksum: int | None


@dataclass
class BakedTensors:
    """What a graph no longer reads: other values there would change nothing.

    Copied and pickled with the module that holds it; the copy watches the copied tensors.

    Attributes:
        held: the tensors, by their name in the module.
    """

    held: dict[str, _Held] = field(default_factory=dict)

    def of(self, module: nn.Module, names: Iterable[str]) -> BakedTensors:
        """These tensors in another module, and more of its tensors, with the values that they have now."""
        found = BakedTensors()
        for name in sorted({*self.held, *names}):
            path, _, own = name.rpartition(".")
            part = module.get_submodule(path)
            holder = next(one for one in (part._parameters, part._buffers, vars(part)) if own in one)
            earlier = self.held.get(name)
            # What was watched before is to have the values that it had then.
            known = (_NEVER, earlier.checksum) if earlier else (_seen(holder[own]), _checksum(holder[own]))
            found.held[name] = _Held(holder, own, *known)
        return found

    def changed(self) -> list[str]:
        """The names of those that have other values now. Cheap where nobody has touched them."""
        found = []
        for name, one in self.held.items():
            tensor = one.holder.get(one.name)
            if one.checksum is not None and (seen := _seen(tensor)) != one.seen:
                if _checksum(tensor) == one.checksum:
                    one.seen = seen
                else:
                    found.append(name)
        return found


_NEVER = (0, 0, 0)


def _seen(tensor: Any) -> tuple[int, int, int]:
    """What changes when somebody writes to the tensor, or puts another in its place.

    Of an inference tensor nobody counts the writes, so that one in place is not seen.
    """
    try:
        return id(tensor), tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
    except (RuntimeError, AttributeError):  # without memory, as inside a transform of torch.func, or no tensor any more
        return id(tensor), 0, 0


def _checksum(tensor: Any) -> int | None:
    if not isinstance(tensor, torch.Tensor):
        return None
    try:
        return zlib.crc32(tensor.detach().resolve_conj().cpu().reshape(-1).view(torch.uint8).numpy().data)
    except (RuntimeError, TypeError):  # no values, as on the meta device and inside a transform of torch.func
        return None
