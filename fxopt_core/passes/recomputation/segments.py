"""Which submodules can be recomputed, what that saves, and when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from fxopt_core.costs import AllocationRecord, mark
from fxopt_core.graphs.legality import legality
from fxopt_core.passes.base import Refusal
from fxopt_core.passes.recomputation.training_step import TrainingStep
from fxopt_core.verification.isolation import same_random_state

PLAIN = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""What a module may be given: values that are the same when they are given again."""

OPERATIONS_PER_BYTE = 10
"""Floating-point operations that take as long as writing one byte: the order of magnitude on CPUs and GPUs alike
(an H200 has 67 TFLOPS in float32 and 4.8 TB/s, its data sheet says). It only ranks segments."""


@dataclass
class Observation:
    """What one submodule did in one training step.

    Attributes:
        name: of the submodule.
        module: itself, in the copy that is watched.
        calls: how often it was called.
        foreign: types of arguments that are neither tensors nor plain values.
        written: whether an argument was written, by the module or between it and backward.
        state: buffers and attributes within it that its forward changed.
        hooked: submodules within it that have forward hooks.
        inputs: addresses of the memory of its tensor arguments.
        output_bytes: size of the memory of its outputs that is not an argument's.
    """

    name: str
    module: nn.Module
    calls: int = 0
    foreign: list[str] = field(default_factory=list)
    written: bool = False
    state: list[str] = field(default_factory=list)
    hooked: list[str] = field(default_factory=list)
    inputs: set[int] = field(default_factory=set)
    output_bytes: int = 0


@legality("recomputation: arguments come again")
def arguments_come_again(seen: Observation) -> str | None:
    """A cache or a list that forward fills would be filled twice."""
    if seen.foreign:
        return (
            f"it is given {', '.join(sorted(set(seen.foreign)))}, which may change; only tensors and plain values "
            "come again as they were (for a cache of keys and values, pass use_cache=False)"
        )
    return None


@legality("recomputation: inputs stay")
def inputs_stay(seen: Observation) -> str | None:
    """The second forward would get what was written since; not every version of torch notices."""
    return "an input of it is written before backward needs it again" if seen.written else None


@legality("recomputation: state stays")
def state_stays(seen: Observation) -> str | None:
    """A second forward would change the state a second time. (Running statistics are taken care of.)"""
    return f"its forward changes {', '.join(seen.state)}" if seen.state else None


@legality("recomputation: hooks are heard once")
def hooks_are_heard_once(seen: Observation) -> str | None:
    """A second forward would call the caller's hooks a second time."""
    return f"forward hooks of {', '.join(seen.hooked)} would be called twice" if seen.hooked else None


CHECKS = (arguments_come_again, inputs_stay, state_stays, hooks_are_heard_once)


@dataclass(frozen=True)
class Segment:
    """A submodule that can be recomputed.

    Attributes:
        name: of the submodule.
        saved_bytes: what recomputing it frees between its forward and its backward.
        cost: what its forward costs, in floating-point operations; `OPERATIONS_PER_BYTE` for each byte allocated.
        held: numbers of the events, from the end of its forward to the start of its backward.
    """

    name: str
    saved_bytes: int
    cost: float
    held: tuple[int, int]

    @property
    def kind(self) -> str:
        """Its name without numbers: equal for the same part of repeated blocks."""
        return re.sub(r"\d+", "*", self.name)


@dataclass(frozen=True)
class Survey:
    """What one recorded step of the unchanged model says.

    Attributes:
        live_bytes: after each event, beyond what lasts.
        segments: submodules whose recomputation saves memory, in the model's order.
        refusals: submodules that would save memory and must not be recomputed.
    """

    live_bytes: list[int]
    segments: list[Segment]
    refusals: list[Refusal]


def survey(step: TrainingStep) -> Survey:
    """Watch one step of a copy, record another, and find the segments."""
    step = step.copy()
    observations = {name: Observation(name, module) for name, module in step.model.named_modules() if name}
    with same_random_state(step.model):
        flops = _forward_flops(step)
        # Watching keeps tensors alive, so it must not see the step that is recorded.
        with _Watch(observations) as watch:
            step.run(watch.before_backward)
        with _Marks(observations):
            _, record = step.record()
    live = record.live_bytes(without=step.lasting())
    moments = dict(reversed(record.marks))
    # `checkpoint` keeps the state of the CPU's random generator, in CPU memory.
    generator = torch.get_rng_state().nbytes if step.device.type == "cpu" else 0
    segments, refusals = [], []
    for name, seen in observations.items():
        if seen.calls != 1 or f"{name}|backward" not in moments:
            continue
        start, end, back = (moments[f"{name}|{moment}"] for moment in ("enter", "leave", "backward"))
        saved = live[end] - live[start] - seen.output_bytes - _inputs_freed(seen, record, end, back) - generator
        if saved <= 0:
            continue
        reasons = [reason for check in CHECKS if (reason := check(seen)) is not None]
        if reasons:
            refusals.append(Refusal(name, "; ".join(reasons)))
            continue
        allocated = sum(block.size for block in record.blocks if start < block.start <= end)
        cost = flops.get(name, 0) + OPERATIONS_PER_BYTE * allocated
        segments.append(Segment(name, saved, cost, (end, back)))
    return Survey(live, segments, refusals)


def _inputs_freed(seen: Observation, record: AllocationRecord, end: int, back: int) -> int:
    """Bytes of inputs that nothing else keeps until backward: recomputation will have to."""
    return sum(
        block.size
        for block in record.blocks
        if block.address in seen.inputs and block.start <= end and block.end is not None and end < block.end < back
    )


def _forward_flops(step: TrainingStep) -> Mapping[str, int]:
    """Floating-point operations of the forward of each submodule (matrix products, convolutions, attention)."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        step.model(*step.args, **step.kwargs)
    root = type(step.model).__name__ + "."
    return {
        name.removeprefix(root): sum(counts.values())
        for name, counts in counter.get_flop_counts().items()
        if name.startswith(root)
    }


class _Hooks:
    """Forward hooks on every submodule, for the duration of a `with` block."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        self.observations = observations

    def __enter__(self) -> Self:
        self._handles = []
        for seen in self.observations.values():
            enter, leave = partial(self.enter, seen), partial(self.leave, seen)
            self._handles.append(seen.module.register_forward_pre_hook(enter, with_kwargs=True))
            self._handles.append(seen.module.register_forward_hook(leave, with_kwargs=True))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    def enter(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Before the forward of a submodule."""

    def leave(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """After it."""


class _Watch(_Hooks):
    """Notes what speaks against recomputing a submodule."""

    def __enter__(self) -> Self:
        for seen in self.observations.values():
            inner = [(name, below) for name, below in seen.module.named_modules() if name]
            seen.hooked = [name for name, below in inner if below._forward_hooks or below._forward_pre_hooks]
        self._versions: list[tuple[Observation, torch.Tensor, int]] = []
        self._before: dict[str, tuple[list[Any], dict[str, Any]]] = {}
        return super().__enter__()

    def before_backward(self) -> None:
        """Note which inputs have been written by now."""
        for seen, tensor, version in self._versions:
            seen.written |= tensor._version != version
        self._versions.clear()

    def enter(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any) -> None:
        seen.calls += 1
        leaves = list(_leaves((args, kwargs)))
        seen.foreign += [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, PLAIN)]
        # A detached tensor has the same version counter and no graph.
        self._versions += [(seen, leaf.detach(), leaf._version) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self._before[seen.name] = leaves, dict(_state(module))

    def leave(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        leaves, state = self._before.pop(seen.name)
        now = list(_leaves((args, kwargs)))
        seen.written |= len(leaves) != len(now) or any(a is not b for a, b in zip(leaves, now, strict=True))
        after = dict(_state(module))
        for key in sorted(state.keys() | after.keys()):
            (old, old_version), (new, new_version) = state.get(key, (None, None)), after.get(key, (None, None))
            if old is not new or old_version != new_version:
                seen.state.append(key)


class _Marks(_Hooks):
    """Marks when a submodule's forward begins and ends and its backward begins, and keeps nothing alive."""

    def enter(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any) -> None:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        seen.inputs = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        mark(f"{seen.name}|enter")

    def leave(self, seen: Observation, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        mark(f"{seen.name}|leave")
        memory = {}
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor):
                memory[leaf.untyped_storage().data_ptr()] = leaf.untyped_storage().nbytes()
                if leaf.requires_grad:
                    leaf.register_hook(lambda gradient: mark(f"{seen.name}|backward"))
        seen.output_bytes = sum(size for address, size in memory.items() if address not in seen.inputs)


def _leaves(value: Any) -> Iterator[Any]:
    """What lists, tuples and dictionaries hold. Any other container counts as one value: it may be a cache."""
    if isinstance(value, tuple) or type(value) in (list, dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _state(module: nn.Module) -> Iterator[tuple[str, tuple[Any, int | None]]]:
    """Name, value and version or length of every attribute and buffer within a module, but for running statistics."""
    for below, inner in module.named_modules():
        path = f"{below}." if below else ""
        for key, value in vars(inner).items():
            yield path + key, (value, len(value) if isinstance(value, (list, dict, set)) else None)
        if not (isinstance(inner, _NormBase) and inner.training):
            for key, buffer in inner._buffers.items():
                yield path + key, (buffer, None if buffer is None else buffer._version)
