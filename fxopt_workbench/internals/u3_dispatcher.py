"""The demonstration of unit 3, *The dispatcher*, without Jupyter: what the way to a kernel costs, with its profile.

Run it with `python -m fxopt_workbench.internals.u3_dispatcher`; `--calls 100` makes it quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from torch.utils._python_dispatch import TorchDispatchMode

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import Table, format_seconds

SPACE = "fxopt_unit3"
"""Namespace of the operators that are written in Python here."""

KEYS = ("CPU", "Meta", "ADInplaceOrView", "AutogradCPU", "AutocastCPU", "FuncTorchBatched")
"""Keys of which the tables are shown."""


class PassesOn(TorchDispatchMode):
    """A mode that looks at nothing and calls every operator."""

    def __torch_dispatch__(
        self, operator: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return operator(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Situation:
    """One way to come to the same addition.

    Attributes:
        name: for the table.
        run: makes all calls once.
        highest: the highest key of the call; its kernel runs first, unless its entry falls through.
    """

    name: str
    run: Callable[[], None]
    highest: str


def highest_key(*tensors: torch.Tensor) -> str:
    """The highest key of a call with these tensors, here and now: the dispatcher's rule.

    Raises:
        ValueError: there is no tensor.
    """
    if not tensors:
        raise ValueError("no tensor is given, so there are no keys to unite")
    keys = torch._C._dispatch_keys(tensors[0])
    for tensor in tensors[1:]:
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys | torch._C._dispatch_tls_local_include_set()
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    name: str = keys.highestPriorityTypeId().name
    return name


def situations(calls: int, library: torch.library.Library) -> tuple[Situation, ...]:
    """The unit's situations.

    Args:
        calls: additions of two numbers in each.
        library: an empty library named `SPACE`, for the operators that are written in Python; they live as long as it.

    Raises:
        ValueError: `calls` is below 1.
    """
    if calls < 1:
        raise ValueError(f"each situation needs at least 1 call, not {calls}")
    plain = torch.ones(2)
    asks = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        inferred = torch.ones(2)
    library.define("composite(Tensor x) -> Tensor")
    library.impl("composite", _add, "CompositeImplicitAutograd")
    library.define("on_cpu(Tensor x) -> Tensor")
    library.impl("on_cpu", _add, "CPU")
    in_python = getattr(torch.ops, SPACE)

    def situation(
        name: str,
        tensor: torch.Tensor,
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
        operator: Callable[[torch.Tensor], torch.Tensor] = _add,
    ) -> Situation:
        def run() -> None:
            with within():
                for _ in range(calls):
                    operator(tensor)

        with within():
            return Situation(name, run, highest_key(tensor))

    return (
        situation("an ordinary tensor", plain),
        situation("it asks for gradients", asks),
        situation("the same, no_grad", asks, torch.no_grad),
        situation("inference_mode", inferred, torch.inference_mode),
        situation("autocast", plain, lambda: torch.autocast("cpu")),
        situation("a mode that passes on", plain, PassesOn),
        situation("composite, in Python", plain, operator=in_python.composite),
        situation("kernel in Python", plain, operator=in_python.on_cpu),
    )


def _add(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, x)


def compare(chosen: Sequence[Situation], calls: int, *, repeats: int = 9) -> Table:
    """Time of a call in the quickest run of each situation, and how many times that of the first.

    Args:
        chosen: what to time.
        calls: how many calls each run makes.
        repeats: timed runs of each, in turn; three more go before them untimed.

    Raises:
        ValueError: `repeats` is below 1.
    """
    times = measure_interleaved({one.name: one.run for one in chosen}, warmup=3, repeats=repeats)
    base = times[chosen[0].name].minimum
    rows = [
        (
            one.name,
            one.highest,
            format_seconds(times[one.name].minimum / calls),
            f"{times[one.name].minimum / base:.1f}",
        )
        for one in chosen
    ]
    return Table("The way to one addition", ("situation", "highest key", "a call", "times the first"), rows)


def reasons(*operators: str) -> Table:
    """Why each entry of some operators' dispatch tables is what it is.

    Raises:
        LookupError: PyTorch has no such operator.
    """
    rows = []
    for operator in operators:
        if not torch._C._dispatch_has_kernel(operator):
            raise LookupError(f"PyTorch has no operator {operator!r}; write it as in aten::add.Tensor")
        lines = dict(
            line.split(": ", 1) for line in torch._C._dispatch_dump_table(operator).splitlines() if ": " in line
        )
        rows.append((operator, *(_why(lines.get(key, "")) for key in KEYS)))
    return Table("What fills the entries", ("operator", *KEYS), rows)


def _why(line: str) -> str:
    if not line:
        return "no entry"
    return "falls through" if line.startswith("fallthrough") else line.rpartition("[")[2].rstrip("]")


def main(
    calls: Annotated[int, typer.Option(min=1, help="Additions in each situation.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each situation.")] = 9,
) -> None:
    """Time the ways to a kernel of unit 3 on one core, and print a profile of one run."""
    torch.set_num_threads(1)
    console = Console()
    with torch.library._scoped_library(SPACE, "DEF") as library:
        chosen = situations(calls, library)
        console.print(compare(chosen, calls, repeats=repeats))
        console.print()
        console.print(reasons("aten::relu", "aten::linear", "aten::ones_like", "aten::add.Tensor"))
        console.print()
        console.print(
            "Every row adds the same numbers. What differs is the way to the kernel, taken once or several times."
        )
        console.print(
            profiled({f"situation: {one.name}": one.run for one in chosen}),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


if __name__ == "__main__":
    typer.run(main)
