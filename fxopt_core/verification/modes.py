"""The modes of torch on which the meaning of operations depends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


def modes() -> dict[str, Any]:
    """Each mode by name, in words: of autocast the dtype, or that it is off."""
    autocast = {
        f"autocast on {kind}": torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else "off"
        for kind in _kinds_of_device()
    }
    return {"default dtype": torch.get_default_dtype(), **autocast, "grad mode": torch.is_grad_enabled()}


@contextmanager
def same_modes() -> Iterator[None]:
    """Put the modes back at the end, whatever is switched inside. Inference mode is off inside."""
    default_dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.callback(torch.set_default_dtype, default_dtype)
        for kind in _kinds_of_device():
            enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            stack.callback(torch.set_autocast_enabled, kind, enabled)
            stack.callback(torch.set_autocast_dtype, kind, dtype)
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(torch.inference_mode(False))
        yield


def _kinds_of_device() -> set[str]:
    return {"cpu", torch._C._get_accelerator().type}
