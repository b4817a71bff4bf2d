"""This machine as a row of the table of hardware: measured, and kept in the user's cache."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch

from fxopt_core.benchmark.measuring import measure
from fxopt_core.devices import choose_device, device_name, synchronize
from fxopt_workbench.capabilities import capabilities
from fxopt_workbench.files import write_whole
from fxopt_workbench.hardware.hardware import THIS, Hardware, published

_MATRIX = {"cpu": 1024, "mps": 4096, "cuda": 8192}
"""Rows and columns of the matrices that are multiplied: large enough for the best rate of such a device."""

_COPIED = {"cpu": 2**27, "mps": 2**28, "cuda": 2**30}
"""Bytes that are copied: many times a cache."""


class NotMeasuredError(ValueError):
    """`this` was asked for before the machine was measured."""


def find_hardware(name: str, device: torch.device | str | None = None) -> Hardware:
    """A row of the table, or this machine.

    Args:
        name: of a row, or `this`.
        device: what `this` means: a device of this machine; `None` for the best one.

    Raises:
        UnknownHardwareError: there is no such hardware; the message offers near names.
        NotMeasuredError: this machine, or not this device of it with as many threads, has been measured.
        DeviceUnavailableError: this machine has no such device.
    """
    if name != THIS:
        return published(name)
    target = device if isinstance(device, torch.device) else choose_device(device)
    kept = _kept().get(_key(target))
    if kept is None:
        raise NotMeasuredError(f"{_key(target)} has not been measured. Run: fxopt hardware measure --device {target}")
    return Hardware(**kept)


def measure_this(device: torch.device) -> Hardware:
    """Measure the bandwidth of memory and the rate of matrix products, and keep them in the user's cache.

    The bandwidth is that of a copy, which reads each byte and writes it. Of several runs the fastest counts.
    """
    measured = _measured(device)
    kept = _kept() | {_key(device): asdict(measured)}
    write_whole(cache_file(), json.dumps(kept, indent=2) + "\n")
    return measured


def cache_file() -> Path:
    """Where measurements are kept: the user's cache folder, by the conventions of the operating system."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fxopt" / "hardware.json"


def memory_bytes(device: torch.device) -> int:
    """Bytes of memory that a device has; on CPU and MPS the machine's."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _kept() -> dict[str, dict[str, Any]]:
    path = cache_file()
    try:
        return dict(json.loads(path.read_text())) if path.exists() else {}
    except ValueError as error:
        raise NotMeasuredError(f"{path} is damaged ({error}). Remove it and run: fxopt hardware measure") from error


def _key(device: torch.device) -> str:
    threads = f", threads: {torch.get_num_threads()}" if device.type == "cpu" else ""
    return f"{device.type} ({device_name(device)}{threads})"


def _measured(device: torch.device) -> Hardware:
    source = torch.ones(_COPIED[device.type], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    bandwidth = 2 * source.nbytes / _fastest(lambda: target.copy_(source), device)
    dtypes = [torch.float32, torch.bfloat16, torch.float16, *[torch.float64] * capabilities(device).float64]
    rates = {str(dtype).removeprefix("torch."): _rate(dtype, device) for dtype in dtypes}
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            rates["tf32"] = _rate(torch.float32, device)
        finally:
            torch.set_float32_matmul_precision(before)
    how = (
        f"measured on {date.today()} with torch {torch.__version__}: a copy of {source.nbytes // 2**20} MiB, products "
        f"of matrices of {_MATRIX[device.type]} rows and columns"
    )
    return Hardware(THIS, _key(device), rates, bandwidth, memory_bytes(device), how)


def _rate(dtype: torch.dtype, device: torch.device) -> float:
    size = _MATRIX[device.type]
    a, b = torch.ones(2, size, size, dtype=dtype, device=device)
    result = torch.empty_like(a)
    return 2 * size**3 / _fastest(lambda: torch.mm(a, b, out=result), device)


def _fastest(function: Callable[[], object], device: torch.device) -> float:
    return measure(function, synchronize=lambda: synchronize(device), warmup=2, repeats=8).minimum
