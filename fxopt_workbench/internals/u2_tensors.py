"""The demonstration of unit 2, *Tensors*, without Jupyter: what layout costs, measured, and the profile of it.

Run it with `python -m fxopt_workbench.internals.u2_tensors`; `--side 512` makes it smaller and quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch.nn import functional

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import Table, format_seconds

LINE_BYTES = 64
"""Bytes of a cache line on x86-64 and on most ARM processors (Apple's have 128)."""

STEPS = (1, 2, 4, 8, 16, 32)
"""Distances, in elements, of what the sweep reads."""


@dataclass(frozen=True)
class Experiment:
    """The same work on the same number of elements, from memory that is laid out in different ways.

    Attributes:
        title: what differs.
        ways: the work by the name of its layout; the first is what the others are compared with.
    """

    title: str
    ways: dict[str, Callable[[], torch.Tensor]]


def experiments(side: int) -> tuple[Experiment, ...]:
    """The unit's experiments.

    Args:
        side: rows and columns of the matrices; images and the sweep grow along.

    Raises:
        ValueError: `side` is below 64.
    """
    if side < 64:
        raise ValueError(f"the matrices need at least 64 rows and columns to show anything, not {side}")
    generator = torch.Generator().manual_seed(0)
    matrix, other = torch.randn(2, side, side, generator=generator)
    count = side * side // 8
    long = torch.randn(count * STEPS[-1], generator=generator)
    result = torch.empty(count)
    images = torch.randn(4, 32, side // 16, side // 16, generator=generator)
    rows = torch.arange(0, side, 2)
    return (
        Experiment(
            f"add two matrices of {side} by {side}",
            {
                "both row by row": lambda: torch.add(matrix, other),
                "one of them transposed": lambda: torch.add(matrix, other.t()),
            },
        ),
        Experiment(
            f"read {count:,} numbers and write them side by side",
            {"every one" if step == 1 else f"one in {step}": _reading(long, step, count, result) for step in STEPS},
        ),
        Experiment(
            "max-pool four images of 32 channels",
            {
                "contiguous": lambda: functional.max_pool2d(images, 2),
                "channels last": _pooling(images.contiguous(memory_format=torch.channels_last)),
            },
        ),
        Experiment(
            f"every other row of {side}",
            {"a slice: a view": lambda: matrix[::2], "a list of indices: a copy": lambda: matrix[rows]},
        ),
    )


def _reading(long: torch.Tensor, step: int, count: int, result: torch.Tensor) -> Callable[[], torch.Tensor]:
    chosen = long[::step][:count]
    return lambda: torch.add(chosen, 1.0, out=result)


def _pooling(images: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: functional.max_pool2d(images, 2)


def compare(experiment: Experiment, *, repeats: int = 9) -> Table:
    """Time of the quickest run of each way, and how many times that of the first.

    The quickest, because on a busy machine all others contain the work of other programs as well.

    Args:
        experiment: what to time.
        repeats: timed calls of each way, in turn; three more go before them untimed.

    Raises:
        ValueError: `repeats` is below 1.
    """
    times = measure_interleaved(experiment.ways, warmup=3, repeats=repeats)
    base = next(iter(times.values())).minimum
    rows = [(name, format_seconds(one.minimum), f"{one.minimum / base:.1f}") for name, one in times.items()]
    return Table(experiment.title.capitalize(), ("layout", "quickest run", "times the first"), rows)


def main(
    side: Annotated[int, typer.Option(min=64, help="Rows and columns of the matrices.")] = 2048,
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls of each way.")] = 9,
) -> None:
    """Time the layouts of unit 2 on one core, and print a profile of one run."""
    torch.set_num_threads(1)
    console = Console()
    chosen = experiments(side)
    for experiment in chosen:
        console.print(compare(experiment, repeats=repeats))
        console.print()
    per_line = LINE_BYTES // 4
    console.print(
        f"A cache line of {LINE_BYTES} bytes holds {per_line} numbers of 4 bytes. From one in "
        f"{per_line} on, each number costs a whole line."
    )
    ways = {f"{one.title.split()[0]}: {name}": run for one in chosen for name, run in one.ways.items()}
    with torch.no_grad():
        shown = profiled(ways)
    console.print(shown, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
