"""The demonstration of unit 1, *Architecture*, without Jupyter: the layers of one addition, and what they cost.

Run it with `python -m fxopt_workbench.internals.u1_architecture`; `--calls 100` makes it quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.internals.native_stack import NoNativeStackError, as_table, native_stack
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import Table, format_seconds

FAILS_INSIDE = "torch.add(torch.ones(2, requires_grad=True), torch.ones(3))"
"""An addition that gets down to TensorIterator and fails there."""


@dataclass(frozen=True)
class Entrance:
    """One way into the same addition.

    Attributes:
        name: for the table.
        layers: what it goes through, in words.
        run: makes all calls once.
    """

    name: str
    layers: str
    run: Callable[[], None]


def entrances(calls: int, elements: int = 2) -> tuple[Entrance, ...]:
    """The unit's ways into an addition, from the outermost to the innermost that Python can reach.

    Args:
        calls: additions in each.
        elements: numbers in each tensor.

    Raises:
        ValueError: `calls` or `elements` is below 1.
    """
    if calls < 1 or elements < 1:
        raise ValueError(f"calls and elements must be at least 1, not {calls} and {elements}")
    a, b, out = torch.ones(elements), torch.ones(elements), torch.empty(elements)
    asks = torch.ones(elements, requires_grad=True)
    with torch.inference_mode():
        c, d = torch.ones(elements), torch.ones(elements)

    def entrance(
        name: str,
        layers: str,
        add: Callable[[], Any],
        within: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> Entrance:
        def run() -> None:
            with within():
                for _ in range(calls):
                    add()

        return Entrance(name, layers, run)

    operator = torch.ops.aten.add.Tensor
    return (
        entrance("a + b", "binding, autograd kernel, CPU kernel", lambda: a + b),
        entrance("torch.add(a, b)", "binding, autograd kernel, CPU kernel", lambda: torch.add(a, b)),
        entrance("the same, recorded", "and a node is recorded", lambda: torch.add(asks, b)),
        entrance("torch.ops.aten.add", "the same below a slower binding", lambda: operator(a, b)),
        entrance("inference_mode", "no autograd kernel", lambda: torch.add(c, d), torch.inference_mode),
        entrance("out= given", "nothing to allocate", lambda: torch.add(a, b, out=out)),
    )


def compare(chosen: Sequence[Entrance], calls: int, *, repeats: int = 9) -> Table:
    """Time of a call in the quickest run of each entrance.

    Args:
        chosen: what to time.
        calls: how many calls each run makes.
        repeats: timed runs of each, in turn; three more go before them untimed.

    Raises:
        ValueError: `repeats` is below 1.
    """
    times = measure_interleaved({one.name: one.run for one in chosen}, warmup=3, repeats=repeats)
    rows = [(one.name, one.layers, format_seconds(times[one.name].minimum / calls)) for one in chosen]
    return Table("What one addition of two small tensors costs", ("entrance", "goes through", "a call"), rows)


def sizes(calls: int, elements: Sequence[int] = (1, 100, 10_000, 1_000_000), *, repeats: int = 5) -> Table:
    """Time of `torch.add` and time an element, for tensors of several sizes.

    Args:
        calls: additions of the smallest tensors; larger ones are added less often.
        elements: numbers in the tensors.
        repeats: timed runs of each size.

    Raises:
        ValueError: an argument is below 1.
    """
    rows = []
    for count in elements:
        times = max(1, min(calls, 10 * calls // count))
        (measured,) = (one for one in entrances(times, count) if one.name == "torch.add(a, b)")
        found = measure_interleaved({measured.name: measured.run}, warmup=1, repeats=repeats)
        seconds = found[measured.name].minimum / times
        rows.append((f"{count:,}", format_seconds(seconds), format_seconds(seconds / count)))
    return Table("When the layers stop mattering", ("elements", "a call", "an element"), rows)


def main(
    calls: Annotated[int, typer.Option(min=1, help="Additions through each entrance.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each entrance.")] = 9,
) -> None:
    """Show the layers of one addition on one core, what they cost, and a profile of one run."""
    torch.set_num_threads(1)
    console = Console()
    try:
        console.print(as_table(native_stack(FAILS_INSIDE)))
    except NoNativeStackError as error:
        console.print(str(error), markup=False)
    chosen = entrances(calls)
    console.print()
    console.print(compare(chosen, calls, repeats=repeats))
    console.print()
    console.print(sizes(calls, repeats=repeats))
    console.print()
    console.print("Every entrance adds the same numbers. What differs is how many layers the call goes through.")
    console.print(
        profiled({f"entrance: {one.name}": one.run for one in chosen}), markup=False, highlight=False, soft_wrap=True
    )


if __name__ == "__main__":
    typer.run(main)
