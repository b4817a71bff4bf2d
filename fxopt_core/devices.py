"""Where a computation runs: choosing a device, waiting for it, and its memory counters."""

from __future__ import annotations

import os
import platform
from importlib.metadata import entry_points

import torch

DEVICE_VARIABLE = "FXOPT_DEVICE"
"""Environment variable that overrides the choice of device (`cpu`, `cuda`, `cuda:1`, `mps`)."""

AS_IF_VARIABLE = "FXOPT_AS_IF"
"""Environment variable for tests: with the value `mps` the CPU stands for such a device (see `as_if_mps`)."""

PREFERENCE = ("cuda", "mps", "cpu")


class DeviceUnavailableError(RuntimeError):
    """A device was asked for by name that this machine does not have."""


def _is_present(kind: str) -> bool:
    if kind == "cuda":
        return torch.cuda.is_available()
    if kind == "mps":
        return torch.backends.mps.is_available()
    return kind == "cpu"


def available_devices() -> tuple[str, ...]:
    """Kinds of device that this machine has, the preferred one first."""
    return tuple(kind for kind in PREFERENCE if _is_present(kind))


def choose_device(name: str | None = None) -> torch.device:
    """The device to compute on.

    Args:
        name: a device such as `"cpu"` or `"cuda:0"`. `None` takes `FXOPT_DEVICE` from the
            environment, and without it the best device that is present. With `FXOPT_AS_IF=mps` it is
            a stand-in for MPS.

    Raises:
        DeviceUnavailableError: the named device is unknown or absent; the message lists what is here.
    """
    if os.environ.get(AS_IF_VARIABLE) and name in (None, "mps"):
        return _stand_in(os.environ[AS_IF_VARIABLE])
    asked_by = "the argument"
    if name is None and os.environ.get(DEVICE_VARIABLE):
        name, asked_by = os.environ[DEVICE_VARIABLE], f"the environment variable {DEVICE_VARIABLE}"
    if name is None:
        return torch.device(available_devices()[0])
    here = ", ".join(available_devices())
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise DeviceUnavailableError(
            f"{asked_by} names the device {name!r}, which is not the name of a device. Present here: {here}."
        ) from error
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if not _is_present(device.type) or (device.index or 0) >= count:
        raise DeviceUnavailableError(
            f"{asked_by} names the device {name!r}, which this machine does not have. "
            f"Present here: {here}. Choose one of these, or leave the choice out."
        )
    return device


def _stand_in(kind: str) -> torch.device:
    stand_ins = entry_points(group="fxopt.device_stand_ins")
    if kind not in stand_ins.names:
        known = " or ".join(map(repr, sorted(stand_ins.names))) or "none"
        raise DeviceUnavailableError(
            f"{AS_IF_VARIABLE} is {kind!r}; the only device that can be stood in for is {known}"
        )
    stand_in = stand_ins[kind].load()
    stand_in.switch_on()
    device: torch.device = stand_in.STAND_IN
    return device


def device_name(device: torch.device) -> str:
    """What a device calls itself."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine() or device.type}, {torch.backends.cpu.get_cpu_capability()}"


def synchronize(device: torch.device | str) -> None:
    """Wait until everything queued on `device` has been computed. On the CPU nothing is ever queued."""
    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind == "mps":
        torch.mps.synchronize()


def reset_peak_memory(device: torch.device | str) -> None:
    """Start counting peak memory anew, where the device counts it."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak_memory_bytes(device: torch.device | str) -> int | None:
    """Peak bytes allocated for tensors since `reset_peak_memory`, or `None` where nothing counts them."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return None
