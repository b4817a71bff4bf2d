"""What machines can do at best: one table, each row with its source.

Checked again in November 2026: NVIDIA's figures against copies of the data sheets; TPU v5e on its page, a later version
of which states 800 GiB/s (859 GB/s); TPU v4 and v5p against what others cite of their pages, which could not be opened;
the M2's bandwidth and memory against reports of the announcement, its rate being calculated and not Apple's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fxopt_workbench.tables import Table, format_count

THIS = "this"
"""Name of the machine that this runs on, once measured (`fxopt_workbench.hardware.this_machine`)."""


class UnknownHardwareError(ValueError):
    """The table has no machine of this name."""


@dataclass(frozen=True)
class Hardware:
    """One device.

    Attributes:
        name: by which it is asked for.
        description: what exactly is meant.
        rates: peak dense FLOP/s of matrix products, a multiply-add being two, by the dtype of their operands
            (`float32`, `bfloat16`, ...), and `tf32` for `float32` operands that are rounded to TensorFloat-32.
        bandwidth: of the device's memory, in bytes a second.
        memory: of the device, in bytes.
        source: where the figures stand, or how they were measured.
    """

    name: str
    description: str
    rates: Mapping[str, float]
    bandwidth: float
    memory: float
    source: str

    def rate(self, dtype: str, *, tf32: bool = False) -> float:
        """Peak FLOP/s for operands of a dtype.

        Args:
            dtype: without `torch.`, such as `float32`.
            tf32: whether `float32` operands may be rounded to TensorFloat-32, where the device has it.

        Raises:
            ValueError: no figure is known.
        """
        if tf32 and dtype == "float32" and "tf32" in self.rates:
            return self.rates["tf32"]
        if dtype not in self.rates:
            known = ", ".join(self.rates)
            raise ValueError(f"{self.name}: no rate is known for {dtype}; known are {known} (--dtype chooses).")
        return self.rates[dtype]


def _nvidia(float64: float, float32: float, tf32: float, half: float) -> dict[str, float]:
    return {"float64": float64, "float32": float32, "tf32": tf32, "bfloat16": half, "float16": half}


def _tpu(half: float) -> dict[str, float]:
    return {"float32": half, "bfloat16": half}


_HOPPER = _nvidia(67e12, 67e12, 494.5e12, 989.5e12)
_A100 = _nvidia(19.5e12, 19.5e12, 156e12, 312e12)
_DATASHEET = (
    "NVIDIA {} Tensor Core GPU datasheet ({}); dense: its figures with sparsity halved; float64 on tensor cores"
)
_CLOUD = (
    "Google Cloud documentation, TPU {0} (docs.cloud.google.com/tpu/docs/{0}); float32 as bfloat16: XLA multiplies "
    "float32 in one bfloat16 pass unless told otherwise (docs.jax.dev/en/latest/201/precision.html)"
)
_A100_DATASHEET = "www.nvidia.com/en-us/data-center/a100, nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_APPLE = (
    "Apple newsroom, 6 June 2022, Apple unveils M2 (bandwidth, memory); rate: 10 cores of 128 multiply-adds a cycle "
    "(github.com/philipturner/metal-benchmarks) at 1.398 GHz (askgeek.io/en/cpus/Apple/M2-10-core-GPU)"
)
_H100 = _DATASHEET.format("H100", "www.nvidia.com/en-us/data-center/h100")
_H200 = _DATASHEET.format("H200", "www.nvidia.com/en-us/data-center/h200")

_ROWS = (
    Hardware("h100", "NVIDIA H100 SXM, 80 GB", _HOPPER, 3.35e12, 80e9, _H100),
    Hardware("h200", "NVIDIA H200 SXM, 141 GB", _HOPPER, 4.8e12, 141e9, _H200),
    Hardware("a100", "NVIDIA A100 SXM, 80 GB", _A100, 2.039e12, 80e9, _DATASHEET.format("A100", _A100_DATASHEET)),
    Hardware("tpu-v4", "Google TPU v4, one chip", _tpu(275e12), 1.2e12, 32 * 2**30, _CLOUD.format("v4")),
    Hardware("tpu-v5e", "Google TPU v5e, one chip", _tpu(197e12), 819e9, 16e9, _CLOUD.format("v5e")),
    Hardware("tpu-v5p", "Google TPU v5p, one chip", _tpu(459e12), 2.765e12, 95e9, _CLOUD.format("v5p")),
    Hardware("m2", "Apple M2, GPU with 10 cores, 24 GB", {"float32": 3.58e12}, 100e9, 24e9, _APPLE),
)

TABLE: dict[str, Hardware] = {row.name: row for row in _ROWS}
"""Published peak figures; what a program reaches is less."""


def published(name: str) -> Hardware:
    """A row of the table.

    Raises:
        UnknownHardwareError: no such row; the message offers near names.
    """
    if name in TABLE:
        return TABLE[name]
    known = (*TABLE, THIS)
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise UnknownHardwareError(f"there is no hardware {name!r}; known are {', '.join(known)}.{hint}")


def hardware_table(rows: Sequence[Hardware] = tuple(TABLE.values()), note: str = "") -> Table:
    """Devices side by side, with their sources, and a `note` below."""
    dtypes = ("float64", "float32", "tf32", "bfloat16", "float16")
    cells = [
        (
            row.name,
            *(format_count(row.rates[dtype]) if dtype in row.rates else "" for dtype in dtypes),
            format_count(row.bandwidth, "B/s"),
            format_count(row.memory, "B"),
        )
        for row in rows
    ]
    meaning = "Dense matrix products in FLOP/s, a multiply-add being two."
    sources = (f"{row.name}: {row.description}. Source: {row.source}." for row in rows)
    notes = (meaning, *sources, *([note] if note else []))
    return Table("", ("name", *dtypes, "bandwidth", "memory"), cells, notes)
