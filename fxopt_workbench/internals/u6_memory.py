"""The demonstration of unit 6, *Memory and profiling*, without Jupyter: where the bytes of a training step are.

Run it with `python -m fxopt_workbench.internals.u6_memory`; `--width 64` makes it quicker, and `--trace step.json`
writes a trace for Perfetto.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.checkpoint import checkpoint

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.internals.memory_curve import MemoryCurve, memory_curve, quiet
from fxopt_workbench.internals.timelines import training_loop
from fxopt_workbench.tables import Table, format_bytes

ROWS = 256
"""Rows of the batch."""

RANGES = ("forward", "backward", "update")


def training_step(width: int, *, checkpointed: bool = False) -> Callable[[], None]:
    """A training step of a network with three hidden layers, with a range for each part.

    Args:
        width: features of each layer, and of the batch.
        checkpointed: the hidden layers' activations are computed again in the backward pass, and not kept.

    Raises:
        ValueError: `width` is below 1.
    """
    if width < 1:
        raise ValueError(f"a layer has at least 1 feature, not {width}")
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(width, width, generator=generator).div_(width**0.5).requires_grad_() for _ in range(4)]
    x = torch.randn(ROWS, width, generator=generator)

    def layer(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.exp(-torch.square(h @ weight)))

    def step() -> None:
        with record_function("forward"):
            h = x
            for weight in weights:
                h = checkpoint(layer, h, weight, use_reentrant=False) if checkpointed else layer(h, weight)
            loss = h.square().mean()
        with record_function("backward"):
            loss.backward()
        with record_function("update"), torch.no_grad():
            for weight in weights:
                assert weight.grad is not None, "the loss depends on every weight"
                weight.sub_(weight.grad, alpha=0.01)
                weight.grad = None

    return step


def recorded(step: Callable[[], Any]) -> tuple[MemoryCurve, profile]:
    """The memory curve of a step, and its profile. One step goes before it unrecorded."""
    step()
    gc.collect()
    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    return memory_curve(profiler), profiler


def memory_by_range(width: int) -> Table:
    """Bytes of tensors that each part of a step has at most and leaves, with and without checkpointing."""
    rows = []
    for name, checkpointed in (("all kept", False), ("checkpointed", True)):
        curve, _ = recorded(training_step(width, checkpointed=checkpointed))
        for one in curve.ranges:
            if one.name in RANGES:
                at_most, left = format_bytes(curve.most_in(one)), format_bytes(curve.at(one.end))
                rows.append((name, one.name, at_most, left))
    return Table("Bytes of tensors during a step", ("activations", "part", "at most", "at its end"), rows)


KEPT: dict[str, Callable[[torch.Tensor], Any]] = {
    "nothing": lambda loss: None,
    "loss.item()": lambda loss: loss.item(),
    "loss.detach()": lambda loss: loss.detach(),
    "loss": lambda loss: loss,
}
"""What a program appends to its history in each step."""


def left_behind(what: str, width: int, steps: int = 4) -> int:
    """Bytes that some steps leave behind when each appends something to a list.

    Args:
        what: a name of `KEPT`.
        width: features of the layer.
        steps: how many.

    Raises:
        ValueError: there is no such name.
    """
    if what not in KEPT:
        known = ", ".join(KEPT)
        raise ValueError(f"{what!r} is none of {known}.{did_you_mean(what, KEPT)}")
    weight = torch.ones(width, width, requires_grad=True)
    history = []
    with quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(steps):
            loss = (weight * 2).exp().mean()
            history.append(KEPT[what](loss))
            del loss
    return memory_curve(profiler).held[-1]


def leaks(width: int) -> Table:
    """What a list keeps alive, depending on what's appended to it."""
    rows = [(f"history.append({what})", format_bytes(left_behind(what, width))) for what in KEPT]
    return Table("What four steps leave behind", ("each step", "bytes"), rows)


def virtual_loops() -> Table:
    """How long loops on a simulated device take, in virtual time, and how much of it the device works."""
    loops = {
        "large kernels": training_loop(4, load=15, kernels=(90, 120, 90)),
        "slow loading": training_loop(4, load=300, kernels=(90, 120, 90)),
        "loading in the background": training_loop(4, load=300, loader_thread=True, kernels=(90, 120, 90)),
        "the loss is read": training_loop(4, load=15, kernels=(90, 120, 90), bookkeeping=150, reads_loss=True),
        "tiny kernels": training_loop(4, load=2, kernels=(3,) * 20, prepare=6),
    }
    rows = []
    for name, events in loops.items():
        device = [one for one in events if one["cat"] in ("kernel", "gpu_memcpy")]
        end = max(one["ts"] + one["dur"] for one in device)
        busy = sum(one["dur"] for one in device)
        rows.append((name, f"{end}", f"{busy}", f"{busy / end:.0%}"))
    return Table("Simulated loops, in microseconds of virtual time", ("loop", "lasts", "device works", "share"), rows)


def main(
    width: Annotated[int, typer.Option(min=1, help="Features of each layer.")] = 512,
    trace: Annotated[Path | None, typer.Option(help="Where to write the step's trace, for Perfetto.")] = None,
) -> None:
    """Show where the bytes of a training step are, what lists keep alive, and a profile of one step."""
    torch.set_num_threads(1)
    console = Console()
    for table in (memory_by_range(width), leaks(width), virtual_loops()):
        console.print(table)
        console.print()
    _, profiler = recorded(training_step(width))
    shown = profiler.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=12, max_name_column_width=36)
    console.print(shown, markup=False, highlight=False, soft_wrap=True)
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
        console.print(f"The trace is in {trace}; open it at https://ui.perfetto.dev", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
