"""The demonstration of unit 8, *Contributing*, without Jupyter: an operator from its entries to a bisection, profiled.

Run it with `python -m fxopt_workbench.internals.u8_contributing`; `--elements 1000` makes it quicker.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer
from rich.console import Console
from torch.profiler import record_function

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.histories import GOOD_SERIES, TEST_FILE, TEST_SCRIPT, history
from fxopt_workbench.internals.mirror import build, read_derivatives, read_operators
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.internals.repositories import Bisection, make_repository, review
from fxopt_workbench.tables import Table, format_bytes, format_seconds

SPACE = "fxopt_unit8"
"""Namespace of the operator."""

ENTRIES = """
- func: smooth_abs(Tensor self) -> Tensor
  structured_delegate: smooth_abs.out
  variants: function, method
  tags: pointwise

- func: smooth_abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: smooth_abs_out
"""

FORMULAS = {
    "from the input": "grad * self / (self * self + 1).sqrt()",
    "from the result": "grad * self / (result + 1)",
}
"""The derivative, written in two ways."""

Found = TypeVar("Found")


def smooth_abs_out(x: torch.Tensor, out: torch.Tensor) -> None:
    """The kernel: sqrt(x * x + 1) - 1, written into `out`."""
    out.copy_(torch.sqrt(x * x + 1) - 1)


def entry_of(formula: str) -> str:
    """The entry of `derivatives.yaml` with a formula."""
    return f"- name: smooth_abs(Tensor self) -> Tensor\n  self: {formula}\n"


class Steps:
    """Times steps that are taken once, one after another."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    def take(self, name: str, step: Callable[[], Found], says: Callable[[Found], str]) -> Found:
        """Take a step, and note how long it took and what came of it."""
        start = time.perf_counter()
        with record_function(f"step: {name}"):
            found = step()
        self.rows.append((name, format_seconds(time.perf_counter() - start), says(found)))
        return found

    def table(self) -> Table:
        """All steps so far."""
        return Table(
            "From an entry to a culprit", ("step", "time", "what came of it"), self.rows, words=("what came of it",)
        )


def walk(folder: Path) -> Steps:
    """Every step of the unit once, in an empty folder."""
    steps = Steps()
    operators = steps.take(
        "torchgen reads the entries",
        lambda: read_operators(ENTRIES),
        lambda found: ", ".join(str(one.func.name) for one in found.functions),
    )
    for name, formula in FORMULAS.items():
        steps.take(
            f"formula {name}",
            lambda formula=formula: read_derivatives(entry_of(formula), operators)["smooth_abs"],  # type: ignore[misc]
            lambda found: f"{found.node} saves {' and '.join(found.saved)}",
        )
    x = torch.linspace(-2, 2, 5, dtype=torch.float64).requires_grad_()
    with torch.library._scoped_library(SPACE, "DEF") as library:
        kernels = {"smooth_abs_out": smooth_abs_out}
        steps.take(
            "the mirror builds it",
            lambda: build(library, operators, kernels, entry_of(FORMULAS["from the input"])),
            lambda _: "kernels for CPU and Meta, and a derivative",
        )
        operator = getattr(torch.ops, SPACE).smooth_abs
        steps.take(
            "gradcheck, twice",
            lambda: torch.autograd.gradcheck(operator, x) and torch.autograd.gradgradcheck(operator, x),
            lambda found: "passed" if found else "failed",
        )
    series = make_repository(folder / "series", GOOD_SERIES)
    steps.take(
        "review of a series",
        lambda: review(series, (sys.executable, TEST_FILE)),
        lambda found: f"{len(found.rows)} commits, {sum(row.count('NO') for row in found.rows)} objections",
    )
    steps.take(
        "git bisect",
        lambda: bisected(folder),
        lambda found: f"{found.culprit.subject if found.culprit else 'nothing'}, {len(found.tested)} tests",
    )
    return steps


def bisected(folder: Path) -> Bisection:
    """The search for the planted fault of the long history, in an empty folder of that folder."""
    repository = make_repository(folder / "history", history())
    test = folder / "test_of_the_history.py"
    test.write_text(TEST_SCRIPT)
    log = repository.log()
    return repository.bisect(log[0].name, log[-1].name, ("env", "PYTHONPATH=.", sys.executable, str(test)))


def training(elements: int, run: Callable[[dict[str, Callable[[], None]]], Found]) -> Found:
    """Both formulas, and the same function left to autograd, forward and backward on a vector.

    Args:
        elements: length of the vector.
        run: gets each way by its name, while the operators are there.

    Raises:
        ValueError: `elements` is below 1.
    """
    if elements < 1:
        raise ValueError(f"the vector needs at least 1 element, not {elements}")
    x = torch.linspace(-3, 3, elements).requires_grad_()
    operators = read_operators(ENTRIES)
    ways: dict[str, Callable[[], None]] = {"left to autograd": _step(lambda one: torch.sqrt(one * one + 1) - 1, x)}
    with (
        torch.library._scoped_library(f"{SPACE}_input", "DEF") as first,
        torch.library._scoped_library(f"{SPACE}_result", "DEF") as second,
    ):
        for library, (name, formula) in zip((first, second), FORMULAS.items(), strict=True):
            build(library, operators, {"smooth_abs_out": smooth_abs_out}, entry_of(formula))
            ways[name] = _step(getattr(torch.ops, library.ns).smooth_abs, x)
        return run(ways)


def _step(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], None]:
    def step() -> None:
        torch.autograd.grad(function(x).sum(), x)

    return step


def saved_bytes(step: Callable[[], None]) -> int:
    """Bytes of different memory that a forward and a backward pass save between them."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return sum(kept.values())


def compare(ways: Mapping[str, Callable[[], None]], *, repeats: int) -> Table:
    """Time of a training step, and what it saves, for each way of having a derivative."""
    times = measure_interleaved(dict(ways), warmup=2, repeats=repeats)
    rows = [(name, format_seconds(times[name].minimum), format_bytes(saved_bytes(way))) for name, way in ways.items()]
    return Table("One derivative, three ways", ("derivative", "forward and backward", "saved"), rows)


def main(
    elements: Annotated[int, typer.Option(min=1, help="Length of the vector that is differentiated.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(min=1, help="Timed steps of each derivative.")] = 9,
) -> None:
    """Walk through unit 8 on one core, and print a profile of three derivatives."""
    torch.set_num_threads(1)
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        console.print(walk(Path(folder)).table())
    console.print()

    def shown(ways: dict[str, Callable[[], None]]) -> tuple[Any, str]:
        return compare(ways, repeats=repeats), profiled({f"derivative: {name}": way for name, way in ways.items()})

    table, profile_of_steps = training(elements, shown)
    console.print(table)
    console.print()
    console.print("What a formula names is saved. What autograd records step by step, it saves step by step.")
    console.print(profile_of_steps, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
