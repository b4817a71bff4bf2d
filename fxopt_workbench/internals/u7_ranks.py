"""One of several processes that train a small model together, over gloo: for unit 7.

`python -m fxopt_workbench.internals.u7_ranks FOLDER RANK WORLD ROWS` meets the others through a file in FOLDER, needs
no network but that of the machine itself, and writes what it found to FOLDER/RANK.json. `together` starts them all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.distributed as dist
import typer
from torch import nn

SECONDS = 120
"""Longest that the processes may take, and that one waits for the others."""

SIZES = (1_000, 100_000, 1_000_000)
"""How many numbers are reduced at once, for the table."""


@dataclass(frozen=True)
class Met:
    """What one process found.

    Attributes:
        rank: which one.
        rows: how many rows of the batch it had.
        sums: what the all-reduce of `[rank + 1, 10 ** rank]` gave it.
        off_by: largest difference of the gradient that DistributedDataParallel left from that of the whole batch.
        weighed_off_by: the same, where each process scaled its loss by its share of the rows first.
        seconds: for each size, what an all-reduce of so many numbers took.
    """

    rank: int
    rows: int
    sums: list[float]
    off_by: float
    weighed_off_by: float
    seconds: dict[int, float]


def together(rows: Sequence[int]) -> list[Met]:
    """Start a process for each entry of `rows` and wait for all of them.

    Args:
        rows: how many rows of one batch each process gets.

    Raises:
        ValueError: there are fewer than two processes, or one without rows.
        RuntimeError: a process failed; the message holds what it printed.
    """
    if len(rows) < 2 or min(rows) < 1:
        raise ValueError(f"at least two processes with at least one row each are needed, not rows={list(rows)}")
    with tempfile.TemporaryDirectory() as name:
        words = [",".join(map(str, rows))]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": _loopback()}
        command = [sys.executable, "-m", "fxopt_workbench.internals.u7_ranks", name]
        running = [
            subprocess.Popen(
                [*command, str(rank), str(len(rows)), *words],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(len(rows))
        ]
        try:
            said = [process.communicate(timeout=SECONDS)[0] for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
        failed = [rank for rank, process in enumerate(running) if process.returncode]
        if failed:
            raise RuntimeError(f"rank {failed[0]} of {len(rows)} failed; it printed: {said[failed[0]][-2000:]}")
        return [_read(Path(name) / f"{rank}.json") for rank in range(len(rows))]


def _loopback() -> str:
    return "lo0" if sys.platform == "darwin" else "lo"


def _read(path: Path) -> Met:
    found: dict[str, Any] = json.loads(path.read_text())
    found["seconds"] = {int(size): seconds for size, seconds in found["seconds"].items()}
    return Met(**found)


def _gradient(model: nn.Module) -> torch.Tensor:
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


def train(rank: int, rows: Sequence[int]) -> Met:
    """One backward pass of this process's part of a batch, and some all-reduces; the process group is there already."""
    sums = torch.tensor([rank + 1.0, 10.0**rank])
    dist.all_reduce(sums)
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)), torch.randn(sum(rows), 8)
    model(x).square().mean().backward()
    whole = _gradient(model)
    model.zero_grad()
    own = x.split(list(rows))[rank]
    shared = nn.parallel.DistributedDataParallel(model)
    shared(own).square().mean().backward()
    off_by = float((_gradient(model) - whole).abs().max())
    model.zero_grad()
    share = rows[rank] * len(rows) / sum(rows)  # the average over the processes divides by their number
    (shared(own).square().mean() * share).backward()
    weighed_off_by = float((_gradient(model) - whole).abs().max())
    return Met(rank, rows[rank], sums.tolist(), off_by, weighed_off_by, {size: _timed(size) for size in SIZES})


def _timed(size: int) -> float:
    numbers = torch.ones(size)
    taken = []
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(numbers)
        taken.append(time.perf_counter() - start)
    return min(taken)


def main(
    folder: Annotated[Path, typer.Argument(help="Where the processes meet.")],
    rank: Annotated[int, typer.Argument(help="Which of them this one is.")],
    world: Annotated[int, typer.Argument(help="How many there are.")],
    rows: Annotated[str, typer.Argument(help="Rows of each, such as 6,2.")],
) -> None:
    """Be one of several processes that train together."""
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "meeting"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=SECONDS))
    found = train(rank, [int(one) for one in rows.split(",")])
    (folder / f"{rank}.json").write_text(json.dumps(found.__dict__))
    dist.destroy_process_group()


if __name__ == "__main__":
    typer.run(main)
