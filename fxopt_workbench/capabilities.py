"""What each kind of device can do."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fxopt_core.devices import DeviceUnavailableError


@dataclass(frozen=True)
class Capabilities:
    """What one kind of device offers, as far as the course depends on it.

    Attributes:
        kind: `cpu`, `cuda` or `mps`.
        float64: whether double-precision tensors may live there (Metal has none).
        complex128: whether double-precision complex tensors may live there.
        asynchronous: whether operations return before the device has finished them.
        memory_counters: whether the allocator reports its peak in bytes.
        kernel_language: what Inductor generates for it.
    """

    kind: str
    float64: bool
    complex128: bool
    asynchronous: bool
    memory_counters: bool
    kernel_language: str


CAPABILITIES = {
    "cpu": Capabilities("cpu", True, True, False, False, "C++ with OpenMP"),
    "cuda": Capabilities("cuda", True, True, True, True, "Triton"),
    "mps": Capabilities("mps", False, False, True, False, "Metal"),
}
"""One row a kind of device. MPS: float64 is refused by Metal; `torch.mps` counts current, not peak, bytes."""


def capabilities(device: torch.device | str) -> Capabilities:
    """The capability row of a device.

    Raises:
        DeviceUnavailableError: the course knows no row for this kind of device.
    """
    kind = torch.device(device).type
    if kind not in CAPABILITIES:
        raise DeviceUnavailableError(
            f"no capability row for the kind of device {kind!r}; known: {', '.join(CAPABILITIES)}"
        )
    return CAPABILITIES[kind]
