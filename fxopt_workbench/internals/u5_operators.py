"""The demonstration of unit 5 as a script: one formula in one loop and in several, bound in two ways, with a profile.

`python -m fxopt_workbench.internals.u5_operators` builds two small libraries (half a minute the first time) and prints
times and a profile; `--numbers 100000` makes it quicker.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import typer
from rich.console import Console

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_workbench.cpp import load
from fxopt_workbench.internals.profiling import profiled
from fxopt_workbench.tables import Table, format_bytes, format_seconds

SPACE = "fxopt_unit5"
"""Namespace of the operators that are built here."""

SOURCE = r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>

at::Tensor vectors(const at::Tensor& x, const at::Tensor& gate) {
  at::Tensor result;
  auto iter = at::TensorIterator::binary_float_op(result, x, gate);
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "gated", [&] {
    using Vec = at::vec::Vectorized<scalar_t>;
    at::native::cpu_kernel_vec(
        iter,
        [](scalar_t x, scalar_t gate) -> scalar_t { return x / (1 + gate * gate); },
        [](Vec x, Vec gate) -> Vec { return x / (Vec(1) + gate * gate); });
  });
  return iter.output();
}

at::Tensor accessor(const at::Tensor& x, const at::Tensor& gate) {
  TORCH_CHECK(x.dim() == 1 && gate.dim() == 1 && x.size(0) == gate.size(0));
  at::Tensor result = at::empty_like(x);
  auto from = x.accessor<float, 1>(), by = gate.accessor<float, 1>(), to = result.accessor<float, 1>();
  for (int64_t i = 0; i < x.size(0); i++) to[i] = from[i] / (1 + by[i] * by[i]);
  return result;
}

TORCH_LIBRARY(fxopt_unit5, m) {
  m.def("vectors(Tensor x, Tensor gate) -> Tensor");
  m.def("accessor(Tensor x, Tensor gate) -> Tensor");
}

TORCH_LIBRARY_IMPL(fxopt_unit5, CPU, m) {
  m.impl("vectors", &vectors);
  m.impl("accessor", &accessor);
}
"""

PLAIN = r"""
#include <cstdint>

extern "C" void gated(const float* x, const float* gate, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = x[i] / (1 + gate[i] * gate[i]);
}
"""


@dataclass(frozen=True)
class Way:
    """One way to the same numbers.

    Attributes:
        name: for the table.
        run: computes them once.
        moved: bytes that it reads and writes, each pass counted.
        seen: whether autograd, `vmap` and compilers see an operator.
    """

    name: str
    run: Callable[[], torch.Tensor]
    moved: int
    seen: str


def ways(numbers: int) -> tuple[Way, ...]:
    """The unit's ways, the one loop of vectors first.

    Args:
        numbers: how many there are; `float32`, from a fixed seed.

    Raises:
        ValueError: `numbers` is below 1.
        CompileError, NoCompilerError: the libraries cannot be built here.
    """
    if numbers < 1:
        raise ValueError(f"at least 1 number is needed, not {numbers}")
    load(SOURCE)
    built = getattr(torch.ops, SPACE)
    plain = ctypes.CDLL(str(load(PLAIN))).gated
    plain.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    generator = torch.Generator().manual_seed(0)
    x, gate = (torch.randn(numbers, generator=generator) for _ in range(2))

    def bound() -> torch.Tensor:
        result = torch.empty_like(x)
        plain(x.data_ptr(), gate.data_ptr(), result.data_ptr(), numbers)
        return result

    size = 4 * numbers
    once = 3 * size
    return (
        Way("TensorIterator, vectors", lambda: built.vectors(x, gate), once, "an operator"),
        Way("accessor, number by number", lambda: built.accessor(x, gate), once, "an operator"),
        Way("three operators of PyTorch", lambda: x / (1 + gate * gate), 7 * size, "three operators"),
        Way("a plain function, by pointers", bound, once, "nothing"),
    )


def compare(chosen: Sequence[Way], *, repeats: int = 9) -> Table:
    """Time of the quickest run of each way, and how many times that of the first.

    Args:
        chosen: what to time.
        repeats: timed runs of each, in turn; three more go before them untimed.

    Raises:
        ValueError: `repeats` is below 1.
    """
    times = measure_interleaved({one.name: one.run for one in chosen}, warmup=3, repeats=repeats)
    base = times[chosen[0].name].minimum
    rows = [
        (
            one.name,
            one.seen,
            format_bytes(one.moved),
            format_seconds(times[one.name].minimum),
            f"{times[one.name].minimum / base:.1f}",
        )
        for one in chosen
    ]
    headings = ("way", "compilers see", "moved", "time", "times the first")
    return Table("x / (1 + gate²), in four ways", headings, rows)


def main(
    numbers: Annotated[int, typer.Option(min=1, help="Numbers in each tensor.")] = 1 << 22,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each way.")] = 9,
) -> None:
    """Time the ways of unit 5 on one core, and print a profile of one run."""
    torch.set_num_threads(1)
    console = Console()
    chosen = ways(numbers)
    console.print(compare(chosen, repeats=repeats))
    console.print()
    console.print(
        "Every row computes the same numbers. A plain function shows in the profile as time that nobody owns."
    )
    console.print(
        profiled({f"way: {one.name}": one.run for one in chosen}), markup=False, highlight=False, soft_wrap=True
    )


if __name__ == "__main__":
    typer.run(main)
