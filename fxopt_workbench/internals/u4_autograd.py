"""The demonstration of unit 4, *Autograd*, without Jupyter: what recording and going back cost, with its profile.

Run it with `python -m fxopt_workbench.internals.u4_autograd`; `--width 64` makes it quicker, and `--cpp` also builds
and runs a model in the C++ frontend, which takes a compiler and about a minute.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.backward_graph import recorded
from fxopt_workbench.internals.cpp_frontend import build, run
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import Table, format_seconds

LAYERS = 6
"""Pairs of a linear layer and a tanh in the network of the demonstration."""

ROWS = 128


@dataclass(frozen=True)
class Way:
    """One way to run the same network.

    Attributes:
        name: for the table.
        forward: runs it on the rows.
        backward: whether gradients are computed afterwards.
        within: the block in which all of it runs.
    """

    name: str
    forward: Callable[[torch.Tensor], torch.Tensor]
    backward: bool = False
    within: Callable[[], AbstractContextManager[Any]] = nullcontext

    def run(self, rows: torch.Tensor) -> None:
        """The forward pass, and the backward pass where there is one."""
        with self.within():
            output = self.forward(rows)
            if self.backward:
                output.sum().backward()


class Network(torch.nn.Sequential):
    """Linear layers with tanh between them, which notes the storages of its layers' results."""

    def __init__(self, width: int) -> None:
        super().__init__(*(layer for _ in range(LAYERS) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())))
        self.results: list[StorageWeakRef] = []
        for layer in self:
            layer.register_forward_hook(self._note)

    def _note(self, layer: torch.nn.Module, given: Any, result: torch.Tensor) -> None:
        self.results.append(StorageWeakRef(result.untyped_storage()))


def ways(network: Network) -> tuple[Way, ...]:
    """The unit's ways to run a network."""

    def with_checkpoint(rows: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = checkpoint(network, rows, use_reentrant=False)
        return output

    def in_half_precision(rows: torch.Tensor) -> torch.Tensor:
        with saved_tensors_hooks(lambda tensor: tensor.half(), lambda tensor: tensor.float()):
            output: torch.Tensor = network(rows)
        return output

    return (
        Way("inference_mode", network, within=torch.inference_mode),
        Way("no_grad", network, within=torch.no_grad),
        Way("recorded", network),
        Way("with the backward pass", network, backward=True),
        Way("the same, checkpointed", with_checkpoint, backward=True),
        Way("the same, kept in half precision", in_half_precision, backward=True),
        Way("the same, in anomaly mode", network, backward=True, within=_anomaly),
    )


def _anomaly() -> AbstractContextManager[Any]:
    found: AbstractContextManager[Any] = torch.autograd.set_detect_anomaly(True)
    return found


def alive(way: Way, network: Network, rows: torch.Tensor) -> int:
    """How many of the layers' results are in memory after the forward pass, the network's own result included."""
    network.results.clear()
    with way.within():
        output = way.forward(rows)
    found = sum(not one.expired() for one in network.results)
    del output
    return found


def compare(network: Network, rows: torch.Tensor, *, repeats: int = 9) -> Table:
    """Time of each way, how many times that of the first, and what it keeps.

    Args:
        network: what runs.
        rows: its input.
        repeats: timed runs of each, in turn; three more go before them untimed.

    Raises:
        ValueError: `repeats` is below 1.
    """
    chosen = ways(network)
    times = measure_interleaved(
        {one.name: lambda one=one: one.run(rows) for one in chosen},  # type: ignore[misc]
        warmup=3,
        repeats=repeats,
    )
    base = times[chosen[0].name].minimum
    table = [
        (
            one.name,
            format_seconds(times[one.name].minimum),
            f"{times[one.name].minimum / base:.1f}",
            str(alive(one, network, rows)),
        )
        for one in chosen
    ]
    return Table("What recording costs", ("way", "a run", "times the first", "results kept"), table)


def order(tensor: torch.Tensor) -> Table:
    """The nodes behind a tensor in the order in which the engine calls them, seen by hooks.

    Raises:
        ValueError: nothing was recorded for the tensor.
    """
    nodes = recorded(tensor)
    called: list[int] = []
    handles = [
        one.node.register_prehook(lambda gradients, place=place: called.append(place))
        for place, one in enumerate(nodes)
    ]
    try:
        torch.autograd.backward([tensor], [torch.ones_like(tensor)], retain_graph=True)
    finally:
        for handle in handles:
            handle.remove()
    rows = [(str(step), nodes[place].name, _number(nodes[place].sequence)) for step, place in enumerate(called, 1)]
    return Table("What the engine calls", ("call", "node", "sequence number"), rows)


def _number(sequence: int) -> str:
    return "the highest" if sequence == 2**64 - 1 else str(sequence)


def main(
    width: Annotated[int, typer.Option(min=1, help="Width of each layer.")] = 256,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each way.")] = 9,
    cpp: Annotated[bool, typer.Option("--cpp", help="Build and run a model in the C++ frontend as well.")] = False,
) -> None:
    """Time what autograd does on one core, show the order of the engine, and print a profile of one run."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    console = Console()
    network, rows = Network(width), torch.randn(ROWS, width)
    console.print(compare(network, rows, repeats=repeats))
    console.print()
    x = torch.randn(3, requires_grad=True)
    early = x.exp()
    console.print(order((x.sin().cos() * early).sum()))
    console.print()
    console.print("Of the nodes that are ready, the one that was recorded last goes first.")
    if cpp:
        console.print()
        console.print("Building a program in C++; this takes about half a minute.")
        with tempfile.TemporaryDirectory() as folder:
            losses = run(build(Path(folder)))
        table = [(str(step), f"{loss:.6f}") for step, loss in losses]
        console.print()
        console.print(Table("A model in C++ that learns a sine", ("step", "loss"), table))
    console.print(
        profiled({f"way: {one.name}": partial(one.run, rows) for one in ways(network)}),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    typer.run(main)
