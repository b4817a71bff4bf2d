"""What machines can do at best: one table, each row with its source.

Read in November 2026 in copies of the pages that the sources name. NVIDIA and Apple write GB for memory and mean GiB;
the table has what a driver or the system reports. Missing are chips without a figure that both maker and others agree
on: Apple publishes no bandwidth of the M1 and no rate of M3 and M4, and those who measured their clocks disagree.
`fxopt hardware measure` measures what is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.tables import Table, format_bytes, format_count

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
        rates: peak dense FLOP/s (for integers operations a second) of matrix products, a multiply-add being two, by
            the dtype of their operands (`float32`, `bfloat16`, `int8`, ...); `float8` for all formats of eight bits,
            and `tf32` for `float32` operands that are rounded to TensorFloat-32.
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
        dtype = "float8" if dtype.startswith("float8") else dtype
        if tf32 and dtype == "float32" and "tf32" in self.rates:
            return self.rates["tf32"]
        if dtype not in self.rates:
            known = ", ".join(self.rates)
            raise ValueError(f"{self.name}: no rate is known for {dtype}; known are {known} (--dtype chooses).")
        return self.rates[dtype]


MIB, GIB = 2**20, 2**30


def _nvidia(float64: float, float32: float, tf32: float, half: float, **others: float) -> dict[str, float]:
    return {"float64": float64, "float32": float32, "tf32": tf32, "bfloat16": half, "float16": half, **others}


def _tpu(half: float, **others: float) -> dict[str, float]:
    return {"float32": half, "bfloat16": half, **others}


_HOPPER = _nvidia(67e12, 67e12, 494.5e12, 989.5e12, int8=1979e12, float8=1979e12)
_H100_PCIE = _nvidia(51e12, 51e12, 378e12, 756.5e12, int8=1513e12, float8=1513e12)
_A100 = _nvidia(19.5e12, 19.5e12, 156e12, 312e12, int8=624e12)
_DATASHEET = (
    "NVIDIA {} Tensor Core GPU datasheet ({}); dense: its figures with sparsity halved; float64 on tensor cores; "
    "memory: as nvidia-smi reports it (thundergolfer.com/blog/nvidia-gpu-memory-capacity)"
)
_CLOUD = (
    "Google Cloud documentation, TPU {0} (docs.cloud.google.com/tpu/docs/{0}); {1}; float32 as bfloat16: XLA "
    "multiplies float32 in one bfloat16 pass unless told otherwise (docs.jax.dev/en/latest/201/precision.html)"
)
_APPLE = (
    "Apple newsroom, {} (bandwidth, memory); rate: {}; float16 as float32 (github.com/philipturner/metal-benchmarks); "
    "memory in GiB, as macOS counts it (novov.me/blog/posts/mixedmemories)"
)
_M1_RATE = "Wikipedia, Apple M1 (en.wikipedia.org/wiki/Apple_M1)"
_M2_RATE = (
    "{} cores of 128 multiply-adds a cycle (github.com/philipturner/metal-benchmarks) at 1.398 GHz "
    "(askgeek.io/en/cpus/Apple/M2-10-core-GPU)"
)
_H100 = _DATASHEET.format("H100", "www.nvidia.com/en-us/data-center/h100")
_PCIE = _DATASHEET.format("H100", "quoted for SXM and PCIe in archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html")
_H200 = _DATASHEET.format("H200", "www.nvidia.com/en-us/data-center/h200")
_A100_SHEET = _DATASHEET.format(
    "A100", "www.nvidia.com/en-us/data-center/a100, nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
)
_V4 = _CLOUD.format("v4", "int8: quoted in glennklockwood.com/garden/tpuv4; memory: 32 GiB")
_V5E = _CLOUD.format("v5e", "int8: in later versions of the page; memory: its 16 GB as GiB, like the page of v5p")
_V5P = _CLOUD.format("v5p", "memory: 95 GiB; int8: the announcement, quoted in aiwiki.ai/wiki/google_tpu_v5p")


def _apple(chip: str, cores: int, rate: float, bandwidth: float, gib: int, when: str, how: str) -> Hardware:
    name, description = chip.lower().replace(" ", "-"), f"Apple {chip}, GPU with {cores} cores, {gib} GB"
    rates = {"float32": rate, "float16": rate}
    return Hardware(name, description, rates, bandwidth, gib * GIB, _APPLE.format(when, how.format(cores)))


_ROWS = (
    Hardware("h100", "NVIDIA H100 SXM, 80 GB", _HOPPER, 3.35e12, 81_559 * MIB, _H100),
    Hardware("h100-pcie", "NVIDIA H100 PCIe, 80 GB", _H100_PCIE, 2e12, 81_559 * MIB, _PCIE),
    Hardware("h200", "NVIDIA H200 SXM, 141 GB", _HOPPER, 4.8e12, 143_771 * MIB, _H200),
    Hardware("a100", "NVIDIA A100 SXM, 80 GB", _A100, 2.039e12, 81_920 * MIB, _A100_SHEET),
    Hardware("tpu-v4", "Google TPU v4, one chip", _tpu(275e12, int8=275e12), 1.2e12, 32 * GIB, _V4),
    Hardware("tpu-v5e", "Google TPU v5e, one chip", _tpu(197e12, int8=393e12), 819e9, 16 * GIB, _V5E),
    Hardware(
        *("tpu-v5p", "Google TPU v5p, one chip", _tpu(459e12, int8=918e12, float8=459e12), 2.765e12, 95 * GIB, _V5P)
    ),
    _apple("M1 Pro", 16, 5.2e12, 200e9, 32, "18 October 2021", _M1_RATE),
    _apple("M1 Max", 32, 10.4e12, 400e9, 64, "18 October 2021", _M1_RATE),
    _apple("M1 Ultra", 64, 21e12, 800e9, 128, "8 March 2022", _M1_RATE),
    _apple("M2", 10, 3.58e12, 100e9, 24, "6 June 2022", _M2_RATE),
    _apple("M2 Pro", 19, 6.80e12, 200e9, 32, "17 January 2023", _M2_RATE),
    _apple("M2 Max", 38, 13.6e12, 400e9, 96, "17 January 2023", _M2_RATE),
    _apple("M2 Ultra", 76, 27.2e12, 800e9, 192, "5 June 2023", _M2_RATE),
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
    hint = did_you_mean(name.lower(), known)
    raise UnknownHardwareError(f"there is no hardware {name!r}; known are {', '.join(known)}.{hint}")


def hardware_table(rows: Sequence[Hardware] = tuple(TABLE.values()), note: str = "") -> Table:
    """Devices side by side, with their sources, and a `note` below."""
    dtypes = ("float64", "float32", "tf32", "bfloat16", "float16", "float8", "int8")
    cells = [
        (
            row.name,
            *(format_count(row.rates[dtype]) if dtype in row.rates else "" for dtype in dtypes),
            format_count(row.bandwidth, "B/s"),
            format_bytes(int(row.memory)),
        )
        for row in rows
    ]
    meaning = "Dense matrix products in FLOP/s (int8: operations a second), a multiply-add being two."
    sources = (f"{row.name}: {row.description}. Source: {row.source}." for row in rows)
    notes = (meaning, *sources, *([note] if note else []))
    return Table("", ("name", *dtypes, "bandwidth", "memory"), cells, notes)
