"""Where tensors lie in memory, and copies that lie there alike."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import is_fake
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class MemoryLocation(NamedTuple):
    """Where a tensor lies in memory.

    Attributes:
        tensor: identity of the object.
        storage: identity of its storage: the address; 0 for a tensor without memory.
        first: where its first element begins in the storage, in bytes.
        end: where its last one ends.
    """

    tensor: int
    storage: int
    first: int
    end: int

    def overlaps(self, other: MemoryLocation) -> bool:
        """Whether the two are one object, or have bytes between their first and last element in common."""
        together = 0 != self.storage == other.storage and self.first < other.end and other.first < self.end
        return together or self.tensor == other.tensor


def location_of(tensor: torch.Tensor) -> MemoryLocation:
    """Where a tensor lies; one that is not strided, or has no elements or no values, lies nowhere.

    A tensor that `torch.func` wraps lies where the one inside does. A fake one takes all of its storage, since to ask
    for more would fix its sizes.
    """
    outside = id(tensor)
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    if is_fake(tensor) and not tensor.is_meta and tensor.layout is torch.strided:
        return MemoryLocation(outside, tensor.untyped_storage()._cdata, 0, 1)
    if tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.is_meta:
        return MemoryLocation(outside, 0, 0, 0)
    first = int(tensor.storage_offset())
    end = last_element(tensor) + 1
    width = tensor.element_size()
    return MemoryLocation(outside, tensor.untyped_storage().data_ptr(), first * width, end * width)


def last_element(tensor: torch.Tensor) -> int:
    """Where in its storage the last element of a tensor lies; before its first one, if it has none."""
    steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset() + sum(steps))


class Copies:
    """Copies of tensors that share memory, and lie in it, as the originals do.

    Attributes:
        storages: of each storage that was copied, by its identity, itself and the copy.
    """

    def __init__(self) -> None:
        self.storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def of_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        """A copy of all that a storage held when this was first asked."""
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = (storage, storage.clone())
        return self.storages[storage._cdata][1]

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a dense tensor with its strides, outside of autograd."""
        tensor = tensor.detach().resolve_conj().resolve_neg()
        storage, offset = self.of_storage(tensor.untyped_storage()), int(tensor.storage_offset())
        copied = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return copied.set_(storage, offset, tensor.size(), tensor.stride())


def what_is_not_dense(tensor: torch.Tensor) -> str:
    """What keeps a tensor from being compared by storage and strides, in words; `""` where nothing does."""
    if isinstance(tensor, UninitializedTensorMixin):
        return "a parameter that has no shape yet"
    kinds = {
        "a sparse or other tensor that is not strided": tensor.layout != torch.strided,
        "a tensor without values": tensor.is_meta,
        "a quantized tensor": tensor.is_quantized,
        "a nested tensor": tensor.is_nested,
        "a subclass of tensor that wraps others": is_traceable_wrapper_subclass(tensor),
    }
    if not any(kinds.values()):
        too_small = tensor.untyped_storage().nbytes() < (last_element(tensor) + 1) * tensor.element_size()
        kinds["a tensor without memory"] = tensor.numel() > 0 and too_small
    return next((words for words, applies in kinds.items() if applies), "")


def require_dense(tensor: torch.Tensor, name: str) -> None:
    """Refuse a tensor that is not strided or has no values.

    Raises:
        TypeError: it is sparse, quantized, nested, on the meta device, of a wrapping class, or without memory.
    """
    if words := what_is_not_dense(tensor):
        raise TypeError(
            f"{name} is {words} ({type(tensor).__name__}, {tensor.layout}, {tensor.device}); expected a dense "
            "tensor, whose storage and strides can be compared. Convert it, for example by to_dense()."
        )
