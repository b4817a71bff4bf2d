"""Whether what was captured gives what the model gives, on one call."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.running import Runner, state_of
from fxopt_core.verification.isolation import Model, private_copy, same_random_state
from fxopt_core.verification.mutations import PLAIN, changed


@dataclass(frozen=True)
class Agreement:
    """How a captured call compared with the model's own.

    Attributes:
        on: which inputs, in words.
        agrees: whether every output agrees but for rounding.
        difference: the largest absolute difference; infinite where shapes, types or numbers of outputs differ.
        refusal: where the capture refused these inputs (a guard, a range), what it said; else empty.
        unwritten: paths in the model that its own call changes and the captured one does not, or not likewise.
    """

    on: str
    agrees: bool
    difference: float
    refusal: str = ""
    unwritten: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.on}: refused ({self.refusal})"
        return f"{self.on}: {'agrees' if self.agrees else 'DIFFERS'}, largest difference {self.difference:.3g}"


@dataclass(frozen=True)
class Reference:
    """What a call of the model itself gave.

    Attributes:
        outputs: what it returned, as the model returned it.
        inputs: positional and keyword arguments after the call, which may have changed them.
        writes: paths of what it changed in the model.
        state: parameters and buffers afterwards, by path.
    """

    outputs: Any
    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    writes: tuple[str, ...]
    state: dict[str, torch.Tensor]


EXAMPLE = "the example"
"""Description of the example inputs: the only ones on which calls begin from the random state at hand."""


_SPENT: ContextVar[list[float] | None] = ContextVar("seconds of comparisons", default=None)


@contextmanager
def time_comparisons() -> Iterator[list[float]]:
    """The seconds of each comparison inside, and of each call of the model that it needs, as they come."""
    spent: list[float] = []
    token = _SPENT.set(spent)
    try:
        yield spent
    finally:
        _SPENT.reset(token)


@contextmanager
def _timed() -> Iterator[None]:
    start, spent = time.perf_counter(), _SPENT.get()
    try:
        yield
    finally:
        if spent is not None:
            spent.append(time.perf_counter() - start)


@_timed()
def reference(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], on: str) -> Reference:
    """Call a private copy of the model, from the random state that belongs to `on`."""
    with same_random_state(model, args, kwargs):
        _seed(on)
        copied, args, kwargs = private_copy(model, args, kwargs, "eager")
        outputs = copied(*args, **kwargs)
        writes = tuple(changed(model, copied, "self")) if isinstance(model, torch.nn.Module) else ()
        return Reference(outputs, (args, kwargs), writes, state_of(copied))


@_timed()
def compare(
    runner: Runner,
    expected: Reference,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    on: str,
    without: frozenset[str] = frozenset(),
) -> Agreement:
    """Call a fresh `runner` on copies of the inputs, from the random state that belongs to `on`, and compare.

    Compared are tensors and plain values in the result and, after the call, in the inputs; gradients are not.
    Entries of the model's result named in `without` do not count.
    """
    _, args, kwargs = private_copy(runner, args, kwargs, "eager")
    # A copy of the state costs memory, and only matters where a call changes it.
    before, runner = runner, runner.fresh() if expected.writes else runner
    with same_random_state(runner.module, args, kwargs):
        _seed(on)
        try:
            leaves = _leaves((runner(*args, **kwargs), args, kwargs), set())
        except Exception as error:
            refusal = in_one_line(error, "run", NOTHING_DYNAMIC)
            return Agreement(on, agrees=False, difference=float("inf"), refusal=refusal)
    wanted = expected.outputs
    if isinstance(wanted, Mapping) and without:
        wanted = [value for name, value in wanted.items() if name not in without]
    values = _leaves((wanted, *expected.inputs), set())
    written, state = runner.written_since(before), state_of(runner.module)
    unwritten = tuple(
        path
        for path in expected.writes
        if path not in written or (path in state and not _difference(state[path], expected.state[path])[1])
    )
    if len(leaves) != len(values):
        return Agreement(on, agrees=False, difference=float("inf"), unwritten=unwritten)
    differences = [_difference(leaf, value) for leaf, value in zip(leaves, values, strict=True)]
    largest = max((one for one, _ in differences), default=0.0)
    return Agreement(on, all(close for _, close in differences), largest, unwritten=unwritten)


def _seed(on: str) -> None:
    """Another random state for each description, so that a draw that became a constant shows."""
    if on != EXAMPLE:
        random.seed(on)
        torch.manual_seed(random.getrandbits(32))


def _leaves(values: Any, seen: set[int]) -> list[Any]:
    """Tensors and plain values, also those held by objects (a cache), without `None`."""
    found: list[Any] = []
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf.detach().clone())
        elif isinstance(leaf, PLAIN):
            found += [] if leaf is None else [leaf]
        elif id(leaf) not in seen and hasattr(leaf, "__dict__"):
            seen.add(id(leaf))
            found += _leaves(vars(leaf), seen)
    return found


def _difference(output: Any, expected: Any) -> tuple[float, bool]:
    """The largest difference, and whether it is no more than rounding (as in a standalone file)."""
    if not isinstance(expected, torch.Tensor):
        # NaN is not equal to itself.
        same = not isinstance(output, torch.Tensor) and (
            output == expected or (output != output and expected != expected)
        )
        return (0.0, True) if same else (float("inf"), False)
    if not isinstance(output, torch.Tensor) or output.shape != expected.shape or output.dtype != expected.dtype:
        return float("inf"), False
    output, expected = output.cpu(), expected.cpu()
    same_values = (output == expected) | ((output != output) & (expected != expected))
    wide = torch.complex128 if expected.is_complex() else torch.float64
    apart = (output.to(wide) - expected.to(wide)).abs().masked_fill(same_values, 0).nan_to_num(nan=torch.inf)
    largest = apart.max().item() if apart.numel() else 0.0
    if not (expected.is_floating_point() or expected.is_complex()):
        return largest, bool(same_values.all())
    magnitude = expected.to(wide).abs().nan_to_num(0, 0, 0).max().item() if expected.numel() else 0.0
    return largest, largest <= 1000 * torch.finfo(expected.dtype).eps * max(1.0, magnitude)
