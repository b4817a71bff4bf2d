"""Traces for the task `layers_of_a_call`: what the profiler saw of a program, with times of our own.

The nesting, the names and the sequence numbers are PyTorch's: a program runs under `torch.profiler`. Times are drawn,
so that a case is the same wherever and whenever it is made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

Recorded = dict[str, Any]
"""`name`, `kind` (`python`, `operator`, `annotation`), `sequence`, `backward` (does the engine run it?), `inner`."""

Event = dict[str, Any]
"""`id`, `name`, `kind`, `thread`, `start` and `end` in nanoseconds, `sequence` and `forward thread`."""

ENGINE = "autograd::engine::evaluate_function: "
"""How the name of what the engine runs begins."""

LONGEST_GAP = 4


class _Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x * x * 3


def _without_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        scale = x.mean()
    return x * scale


PIECES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda x: functional.linear(x, torch.eye(3).requires_grad_(), torch.zeros(3).requires_grad_()),
    "relu": torch.relu,
    "add": lambda x: x + 1,
    "square": lambda x: x * x,
    "softmax": lambda x: functional.softmax(x, dim=-1),
    "layer_norm": lambda x: functional.layer_norm(x, (3,)),
    "turned": lambda x: x.reshape(3, 4).t().reshape(4, 3),
    "cat": lambda x: torch.cat([x, x])[:4],
    "product": lambda x: x @ x.t() @ x,
    "module": lambda x: torch.nn.Softplus()(x),
    "cubed": lambda x: _Cubed.apply(x),
    "no_grad": _without_gradient,
    # The product is computed at the autograd key, and nothing is recorded for it.
    "constant": lambda x: x + torch.ones(3) * 2,
    "zeros": lambda x: x + torch.zeros_like(x),
}
"""What programs are made of: each takes four rows of three numbers and returns as many."""

BACKWARD = "backward"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the profiler from writing to the terminal that it began and ended."""
    name = "KINETO_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "99"
    try:
        yield
    finally:
        del os.environ[name]


@cache
def _recorded(program: str) -> str:
    x = torch.linspace(-1, 1, 12).view(4, 3).requires_grad_()
    with _quiet(), profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        for name in json.loads(program):
            if name == BACKWARD:
                x.sum().backward()
            else:
                x = PIECES[name](x)
    results = profiler.profiler.kineto_results
    return json.dumps([one for root in results.experimental_event_tree() for one in _reduced(root)])


def recorded(program: list[str]) -> list[Recorded]:
    """What the profiler saw of a program: operators, and the functions of PyTorch's Python around them."""
    found: list[Recorded] = json.loads(_recorded(json.dumps(program)))
    return found


def _reduced(event: Any) -> Iterator[Recorded]:
    """An event and what is inside it; of Python only PyTorch's own functions, and only around operators."""
    inner = [one for child in event.children for one in _reduced(child)]
    tag = str(event.typed[0]).rpartition(".")[2]
    if tag == "TorchOp":
        number = event.extra_fields.sequence_number
        if "USER_SCOPE" not in str(event.extra_fields.scope):
            yield {
                "name": event.name,
                "kind": "operator",
                "sequence": number if number >= 0 else None,
                "backward": event.name.startswith(ENGINE) or "BACKWARD_FUNCTION" in str(event.extra_fields.scope),
                "inner": inner,
            }
            return
    elif inner and event.name.startswith(("torch/", "nn.Module", "<built-in")):
        name = re.sub(r" at 0x[0-9a-f]+", "", event.name)
        yield {"name": name, "kind": "python", "sequence": None, "backward": False, "inner": inner}
        return
    yield from inner


def annotated(roots: list[Recorded], random: Random) -> list[Recorded]:
    """The same, with a named range (as `record_function` makes) around some that follow one another."""
    if len(roots) < 2:
        return roots
    first = random.randrange(len(roots) - 1)
    last = random.randint(first + 1, len(roots))
    name = f"block {random.randint(1, 9)}"
    around = {"name": name, "kind": "annotation", "sequence": None, "backward": False, "inner": roots[first:last]}
    return [*roots[:first], around, *roots[last:]]


def trace(programs: list[list[str]], seed: int, *, engine_thread: bool = False, ranges: bool = False) -> list[Event]:
    """Events of several programs at once, each on a thread of its own, in no order.

    Args:
        programs: names of `PIECES`, and `BACKWARD` to ask for gradients.
        seed: of times, numbers and order.
        engine_thread: whether the engine has a thread of its own for each program, as it has for a GPU.
        ranges: whether there are named ranges.
    """
    random = Random(seed)
    events: list[Event] = []
    for number, program in enumerate(programs):
        # Large, as the numbers of threads are: equal ones are then not the same object by chance.
        thread, base = 7000 + number, random.randint(0, 30)
        roots = recorded(program)
        if ranges:
            roots = annotated(roots, random)
        behind: list[Recorded] = []
        if engine_thread:
            roots = [one for root in roots for one in _split(root, behind)]
        smallest = min((one["sequence"] for one in _all(recorded(program)) if one["sequence"] is not None), default=0)
        shift = random.randint(300, 303) - smallest
        made: list[Event] = []
        end = _timed(roots, base, thread, made, random)
        _timed(behind, random.randint(base, end), 7100 + number, made, random)
        for event in made:
            if event["sequence"] is not None:
                event["sequence"] += shift
            event["forward thread"] = thread if event.pop("backward") and event["sequence"] is not None else None
        events += made
    numbers = random.sample(range(1000, 1000 + 3 * len(events)), len(events))
    for event, number in zip(events, numbers, strict=True):
        event["id"] = number
    random.shuffle(events)
    return events


def _all(roots: list[Recorded]) -> Iterator[Recorded]:
    for one in roots:
        yield one
        yield from _all(one["inner"])


def _split(root: Recorded, behind: list[Recorded]) -> Iterator[Recorded]:
    """Takes out what the engine runs. Python that has nothing left inside stays: it waits."""
    if root["name"].startswith(ENGINE):
        behind.append(root)
        return
    yield {**root, "inner": [one for inner in root["inner"] for one in _split(inner, behind)]}


def _timed(roots: list[Recorded], start: int, thread: int, made: list[Event], random: Random) -> int:
    """Events for trees one after the other; returns when the last one ends."""
    time = start
    for one in roots:
        event: Event = {"id": 0, "name": one["name"], "kind": one["kind"], "thread": thread, "start": time, "end": time}
        event |= {"sequence": one["sequence"], "forward thread": None, "backward": one["backward"]}
        made.append(event)
        # Neighbours may touch, and an event may begin or end with its parent, but never both.
        before, after = random.choice([(0, 1), (1, 0), (1, 2), (random.randint(0, LONGEST_GAP), 3)])
        inside = _timed(one["inner"], time + before, thread, made, random)
        event["end"] = inside + after if one["inner"] else time + random.randint(1, 20)
        time = event["end"] + random.choice([0, 0, random.randint(1, LONGEST_GAP)])
    return max((event["end"] for event in made if event["thread"] == thread), default=start) if roots else start
