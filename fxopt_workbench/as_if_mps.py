"""On a machine without an Apple GPU: refuse what MPS lacks, so that code for it can be tried anywhere.

With `FXOPT_AS_IF=mps` in the environment, `devices.choose_device()` gives `cpu:0`. To PyTorch that is the CPU; here it
stands for the GPU: what is made on it or moved to it, and what is computed from that, counts as lying on the device,
and a tensor of double precision there is an error, as it is on MPS
(https://docs.pytorch.org/docs/stable/notes/mps.html; Metal has no 64-bit floating point). `.cpu()` and `.to("cpu")`
lead back to the host, where everything is allowed.

What is inside compiled code is not looked at, so that compilation goes on as always; its inputs are. Nor is what
`torch.jit.trace` runs: it writes down what a mode hands it, and would take parameters for constants. TorchScript in
turn hands a mode numbers where the operation expects tensors; only what comes out of it is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

STAND_IN = torch.device("cpu", 0)
"""The CPU under another name: PyTorch computes on it as ever, and the two can be told apart in a call."""

LACKING = (torch.float64, torch.complex128)
"""The dtypes that MPS does not have."""


class LackingOnMPSError(TypeError):
    """A tensor of this dtype cannot lie on an MPS device."""


class RefuseWhatMPSLacks(TorchDispatchMode):
    """While active, a tensor of double precision on the stand-in device raises `LackingOnMPSError`."""

    def __init__(self) -> None:
        super().__init__()
        # `torch.cond` and its like come here as they are, and go on with this mode.
        self.supports_higher_order_operators = True
        # By storage, since `Module.to` moves a parameter by giving the same tensor another storage. The reference
        # is weak to the data, but keeps the address from being used again.
        self._on_device: dict[int, StorageWeakRef] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compilation sees nothing of this mode."""
        return True

    def on_device(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor counts as lying on the device."""
        return tensor.layout is torch.strided and tensor.untyped_storage()._cdata in self._on_device

    def put_on_device(self, tensor: torch.Tensor, made_by: object) -> None:
        """From now on this tensor counts as lying on the device.

        Raises:
            LackingOnMPSError: MPS does not have its dtype.
        """
        if tensor.dtype in LACKING:
            raise LackingOnMPSError(
                f"{made_by} gives {tensor.dtype} on the device, which MPS does not have; "
                f"use {'complex64' if tensor.dtype.is_complex else 'float32'} there, or compute this on the CPU"
            )
        if tensor.layout is torch.strided:
            storage = StorageWeakRef(tensor.untyped_storage())
            self._on_device[storage.cdata] = storage

    def put_on_host(self, tensor: torch.Tensor) -> None:
        """From now on this tensor counts as lying in the host's memory."""
        self._on_device.pop(tensor.untyped_storage()._cdata, None)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operation; where its result lies on the device, it must be of a dtype that MPS has."""
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        device = kwargs.get("device")
        if device is None:
            self.follow((args, kwargs), result, function)
        elif torch.device(device) == STAND_IN:
            self._put_all_on_device(result, function)
        return result

    def follow(self, inputs: object, result: object, made_by: object) -> None:
        """What is computed from tensors on the device lies on the device.

        Raises:
            LackingOnMPSError: MPS does not have the dtype of a result.
        """
        if any(self.on_device(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)):
            self._put_all_on_device(result, made_by)

    def _put_all_on_device(self, result: object, made_by: object) -> None:
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu":
                self.put_on_device(leaf, made_by)


@functools.cache
def switch_on() -> RefuseWhatMPSLacks:
    """Refuse what MPS lacks from now on, in this thread, until the process ends."""
    mode = RefuseWhatMPSLacks()

    def leading_to_host(method: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        # For PyTorch both ends are the CPU: nothing would be copied, and no operation would be seen.
        @functools.wraps(method)
        def moved(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            target = "cpu" if method.__name__ == "cpu" else kwargs.get("device", args[0] if args else None)
            is_host = isinstance(target, str | torch.device) and torch.device(target) == torch.device("cpu")
            if not is_host or not mode.on_device(tensor):
                return method(tensor, *args, **kwargs)
            copy = tensor.clone()
            mode.put_on_host(copy)
            return method(copy, *args, **kwargs)

        return moved

    make = torch.tensor

    @functools.wraps(make)
    def tensor(*args: Any, **kwargs: Any) -> torch.Tensor:
        # What is made from Python numbers reaches the mode without the device that was asked for.
        made = make(*args, **kwargs)
        if kwargs.get("device") is not None and torch.device(kwargs["device"]) == STAND_IN:
            mode.put_on_device(made, "torch.tensor")
        return made

    def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes():
                return function(*args, **kwargs)

        return called

    def unseen_inside(call: Callable[..., Any]) -> Callable[..., Any]:
        run = unseen(call)

        @functools.wraps(call)
        def called(script: Any, *args: Any, **kwargs: Any) -> Any:
            result = run(script, *args, **kwargs)
            weights = list(script.parameters()) if isinstance(script, torch.nn.Module) else []
            mode.follow((args, kwargs, weights), result, "TorchScript")
            return result

        return called

    torch.jit.trace = unseen(torch.jit.trace)
    called_types: tuple[Any, ...] = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    for called_type in called_types:
        called_type.__call__ = unseen_inside(called_type.__call__)
    # To inline is to simplify, and to simplify is to compute.
    inlined_types: tuple[Any, ...] = (torch.jit.RecursiveScriptModule, torch.jit.ScriptFunction)
    for inlined_type in inlined_types:
        inlined_type.inlined_graph = property(unseen(inlined_type.inlined_graph.fget))
    torch.tensor = tensor
    for name in ("cpu", "to"):
        setattr(torch.Tensor, name, leading_to_host(getattr(torch.Tensor, name)))
    mode.__enter__()
    return mode
