"""A function mode that notes what Python reads from a tensor without an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from fxopt_workbench.recording.recorder import Recorder, refuse

_VALUES = (torch.Tensor.tolist, torch.Tensor.__repr__, torch.Tensor.__format__)
_ARRAYS = (torch.Tensor.numpy, torch.Tensor.__array__)
_MAKERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)
_ADDRESSES = frozenset(
    {
        "data_ptr",
        "storage",
        "untyped_storage",
        "_typed_storage",
        "__dlpack__",
        "__deepcopy__",
        "__reduce_ex__",
        "share_memory_",
        "apply_",
        "map_",
        "map2_",
        "module_load",
    }
)
_LOOKS_INSIDE = frozenset(
    {"tensor_split", "ctc_loss", "lstm", "gru", "rnn_tanh", "rnn_relu", "_pack_padded_sequence", "_pad_packed_sequence"}
)
"""Functions that read tensors of whole numbers in C++, and call operators with what they found."""


class Reads(TorchFunctionMode):
    """Stands beside a `Recorder`: values that leave a tensor are guarded, ways to its memory are refused.

    An array is a copy that cannot be written to, since writing would change the tensor unseen.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at a call of torch's interface, and make it.

        Raises:
            CaptureError: it gives away where a tensor lies in memory.
        """
        with self._recorder.remembering_refusals():
            return self._call(function, args, kwargs or {})

    def _call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if function in _VALUES:
            self._recorder.read(args[0], f"{name}()")
            with _disable_current_modes():
                return function(*args, **kwargs)
        if function in _ARRAYS:
            self._recorder.read(args[0], f"{name}()")
            return _read_only_copy(function, args, kwargs)
        if name in _ADDRESSES or getattr(function, "__self__", None) is torch.Tensor.__cuda_array_interface__:
            refuse(f"{name}() reaches the memory of a tensor")
        if function in _MAKERS:
            for tensor in _inside_sequences((*args, *kwargs.values())):
                self._recorder.read(tensor, f"{name}()")
        if name in _LOOKS_INSIDE:
            for value in (*args, *kwargs.values()):
                if isinstance(value, torch.Tensor) and value.dtype in (torch.int32, torch.int64):
                    self._recorder.read(value, f"{name}()")
        return function(*args, **kwargs)


def _read_only_copy(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with _disable_current_modes():
        array = function(*args, **kwargs).copy()
    array.flags.writeable = False
    return array


def _inside_sequences(values: Any) -> Iterator[torch.Tensor]:
    """Tensors that torch reads one by one to make another: those inside lists, not the argument itself."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from (one for one in value if isinstance(one, torch.Tensor))
            yield from _inside_sequences(value)
