"""Parameters, buffers and constants of a graph: each tensor once, shared memory kept shared, strides kept."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from autograder.exchange.graph_form.format import GraphFormatError, Limits, entries, flag, listed, shown, whole_number
from autograder.exchange.graph_form.literals import DTYPES

_LARGEST = (1 << 63) - 1


class TensorEncoder:
    """Collects the tensors of one document.

    Attributes:
        entries: the `tensors` list of the document.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._index: dict[int, int] = {}
        self._tensors: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor, where: str) -> int:
        """The index of `tensor` in `entries`, which it joins on the first call.

        Raises:
            GraphFormatError: the tensor is of a kind that has no encoded form.
        """
        if id(tensor) in self._index:
            return self._index[id(tensor)]
        _refuse_special(tensor, where)
        self._index[id(tensor)] = len(self.entries)
        self._tensors.append(tensor)
        self.entries.append(
            {
                "storage": "",
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "strides": list(tensor.stride()),
                "offset": 0,
                "parameter": isinstance(tensor, nn.Parameter),
                "requires_grad": tensor.requires_grad,
            }
        )
        return self._index[id(tensor)]

    def finish(self) -> dict[str, torch.Tensor]:
        """The storages, by the names that `entries` now give them: of each only the part that is used."""
        groups: dict[int, list[int]] = {}
        for index, tensor in enumerate(self._tensors):
            # Nothing can be shared by a tensor without elements.
            key = tensor.untyped_storage().data_ptr() if tensor.numel() else -1 - index
            groups.setdefault(key, []).append(index)
        storages: dict[str, torch.Tensor] = {}
        for members in groups.values():
            name = f"storage{len(storages)}"
            storages[name] = self._pack(members, name)
        return storages

    def _pack(self, members: list[int], name: str) -> torch.Tensor:
        spans = [_byte_span(self._tensors[index]) for index in members]
        dtype = self._tensors[members[0]].dtype
        widest = max(self._tensors[index].dtype.itemsize for index in members)
        start = min(begin for begin, _ in spans)
        start -= start % widest
        length = -(-(max(end for _, end in spans) - start) // widest) * widest
        for index, (begin, _) in zip(members, spans, strict=True):
            self.entries[index]["storage"] = name
            self.entries[index]["offset"] = (begin - start) // self._tensors[index].dtype.itemsize
        source = self._tensors[members[0]].detach().untyped_storage()
        length = min(length, source.nbytes() - start)
        raw = torch.empty(0, dtype=torch.uint8, device=source.device).set_(source, start, (length,), (1,))
        kept = raw.to("cpu", copy=True)
        if length % dtype.itemsize:
            return kept
        # safetensors does not know complex numbers.
        return kept.view(dtype.to_real() if dtype.is_complex else dtype)


def _byte_span(tensor: torch.Tensor) -> tuple[int, int]:
    size = tensor.dtype.itemsize
    if tensor.numel() == 0:
        return 0, 0
    begin = int(tensor.storage_offset()) * size
    last = sum(int(n - 1) * int(stride) for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * size


def _refuse_special(tensor: torch.Tensor, where: str) -> None:
    problem = None
    if type(tensor) not in (torch.Tensor, nn.Parameter):
        problem = f"is a {type(tensor).__name__}; only plain tensors and parameters can be encoded"
    elif tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        problem = f"has the layout {tensor.layout} on {tensor.device}; only dense tensors with values can be encoded"
    elif tensor.is_conj() or tensor.is_neg():
        problem = "is a lazily conjugated or negated view; call resolve_conj() and resolve_neg() first"
    if problem:
        raise GraphFormatError(f"{where}: the tensor {problem}")


class TensorDecoder:
    """Rebuilds the tensors of one document, each entry as one object.

    Args:
        document_entries: the `tensors` list of the document, unchecked.
        storages: the storages that came with it.
        limits: how many bytes and dimensions are accepted.

    Raises:
        GraphFormatError: an entry is malformed, or does not fit the storage that it names.
    """

    def __init__(self, document_entries: Any, storages: dict[str, torch.Tensor], limits: Limits) -> None:
        self._limits = limits
        total = 0
        for name, storage in storages.items():
            if type(storage) is not torch.Tensor or storage.dim() != 1 or not storage.is_contiguous():
                raise GraphFormatError(f"tensor {shown(name)}: expected a contiguous tensor of one dimension")
            if storage.device.type != "cpu" or storage.layout != torch.strided or storage.is_quantized:
                raise GraphFormatError(f"tensor {shown(name)}: expected a dense tensor on the CPU")
            total += storage.numel() * storage.dtype.itemsize
        if total > limits.tensor_bytes:
            raise GraphFormatError(f"tensors: {total} bytes; at most {limits.tensor_bytes} are accepted")
        # A copy: what the decoded graph writes must not reach the evidence.
        self._storages = {name: storage.detach().clone() for name, storage in storages.items()}
        rows = listed(document_entries, limits.attributes, "tensors")
        self._tensors = [self._build(row, f"tensors[{index}]") for index, row in enumerate(rows)]

    def get(self, index: Any, where: str) -> torch.Tensor:
        """The tensor number `index`.

        Raises:
            GraphFormatError: there is no such tensor; the message starts with `where`.
        """
        if type(index) is not int or not 0 <= index < len(self._tensors):
            raise GraphFormatError(f"{where}: {shown(index)} is no index into the {len(self._tensors)} tensors")
        return self._tensors[index]

    def _build(self, row: Any, where: str) -> torch.Tensor:
        entries(row, ("storage", "dtype", "shape", "strides", "offset", "parameter", "requires_grad"), where)
        if type(row["storage"]) is not str or row["storage"] not in self._storages:
            raise GraphFormatError(f"{where}: the storage {shown(row['storage'])} is not among the tensors that came")
        if type(row["dtype"]) is not str or row["dtype"] not in DTYPES:
            raise GraphFormatError(f"{where}: {shown(row['dtype'])} is no dtype of torch such as 'float32'")
        dtype = DTYPES[row["dtype"]]
        shape, strides = (
            [whole_number(n, _LARGEST, f"{where}: {key}") for n in listed(row[key], self._limits.dimensions, where)]
            for key in ("shape", "strides")
        )
        offset = whole_number(row["offset"], _LARGEST, f"{where}: offset")
        is_parameter = flag(row["parameter"], f"{where}: parameter")
        requires_grad = flag(row["requires_grad"], f"{where}: requires_grad")
        if len(shape) != len(strides):
            raise GraphFormatError(f"{where}: {len(shape)} sizes but {len(strides)} strides")
        if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
            raise GraphFormatError(f"{where}: a tensor of dtype {dtype} cannot require gradients")
        storage = self._storages[row["storage"]]
        try:
            flat = storage if storage.dtype == dtype else storage.view(torch.uint8).view(dtype)
        except RuntimeError as error:
            raise GraphFormatError(f"{where}: its storage of {storage.dtype} cannot be read as {dtype}") from error
        if math.prod(shape) > _LARGEST:
            raise GraphFormatError(f"{where}: a tensor of shape {shown(shape)} has too many elements")
        empty = 0 in shape
        last = offset if empty else offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
        if last > flat.numel():
            raise GraphFormatError(
                f"{where}: shape {shown(shape)}, strides {shown(strides)} and offset {offset} reach element {last} "
                f"of a storage of {flat.numel()}"
            )
        try:
            tensor = flat.as_strided(shape, strides, offset)
        except RuntimeError as error:
            raise GraphFormatError(
                f"{where}: shape {shown(shape)} with strides {shown(strides)} is no tensor"
            ) from error
        if is_parameter:
            return nn.Parameter(tensor, requires_grad)
        return tensor.detach().requires_grad_(requires_grad)
