"""What is inside a tensor, as far as Python can ask: the same program is run here, and PyTorch's own Python asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing, follow_up
from autograder.exercises.u2.inside_a_tensor.visible import SCHEMA, Program, run
from autograder.learner_side.libraries import first_line

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "not there": "Your library defines no operator `u2::inside`: `TORCH_LIBRARY(u2, m)` with `m.def(…)` does.",
    "another schema": f"The schema of your operator is another one than `{SCHEMA.removeprefix('u2::')}`.",
    "refused": "Your function refuses a tensor that it should take.",
    "one device only": (
        "Your function was registered for one device, and refuses a tensor on another. It reads no element, so it can "
        "serve all of them: leave the device out, as `m.def(schema, &inside)` does."
    ),
    "takes what has no storage": (
        "A sparse tensor has no storage, and numbers for it are made up. Let the call raise, as `x.storage()` does by "
        "itself."
    ),
    "reads a copy": (
        "Your numbers are those of a fresh tensor: offset 0, one user. `contiguous()` and `clone()` copy. Read the "
        "tensor that you were given."
    ),
    "offset in bytes": "Your offset counts bytes. `storage_offset` counts elements, and so should you.",
    "offset from addresses": (
        "Your offset is right while the tensor has elements, and wrong without them: then `data_ptr()` is null, and a "
        "difference of addresses says nothing. The tensor keeps the offset itself."
    ),
    "narrow offset": (
        "Your offset is right while it is small. `int` has 32 bits for a whole number, `float` 24 and `double` 53, and "
        "a tensor can begin further behind. Keep it as an `int64_t` all the way."
    ),
    "another offset": "Your offset is another one than `x.storage_offset()`.",
    "you hold it, too": (
        "Your count of users is too large, everywhere by the same: your function holds the storage itself while it "
        "counts. A `Storage` that you copy, or a view that you make, is one more user. Take a reference "
        "(`const c10::Storage&`)."
    ),
    "counts something else": (
        "Your count of users misses some. `x.use_count()` counts who holds this one tensor. Several tensors may hold "
        "the storage, which has a count of its own."
    ),
    "another count": "Your count of users is another one than that of the storage.",
    "no counter to read": (
        "A tensor that was made in inference mode has no version counter, and to read it raises. Ask first whether the "
        "counter is there."
    ),
    "made-up version": (
        "A tensor that was made in inference mode has no version. The third result is `None` there, `std::nullopt` in "
        "C++."
    ),
    "asks the mode": (
        "You say `None` because inference mode is on. An ordinary tensor keeps its counter there: ask the tensor, not "
        "the mode."
    ),
    "another counter": (
        "The version that you read stays at 0, however often somebody writes. `x.data` in Python, `variable_data()` in "
        "C++, are tensors with a counter of their own."
    ),
    "another version": "Your version is another one than `x._version`.",
}

SMALL = 2**24
"""Offsets below it are the same in every type that somebody would keep them in."""


@dataclass(frozen=True)
class Facts:
    """What is true of a tensor at some moment; `None` for `users` says that it has no storage.

    Attributes:
        offset: where it begins, in elements.
        users: how many hold its storage.
        version: of its memory; `None` where nobody counts.
        device: where it is.
        itemsize: bytes of an element.
        elements: how many there are.
        contiguous: whether `contiguous()` gives the tensor itself.
        inference_mode: whether it was on.
    """

    offset: int
    users: int | None
    version: int | None
    device: str
    itemsize: int
    elements: int
    contiguous: bool
    inference_mode: bool


def facts(tensor: torch.Tensor, names: dict[str, Any]) -> Facts:
    """What PyTorch's Python says of a tensor."""
    users = None
    if tensor.layout is torch.strided:
        storage = tensor.untyped_storage()
        held = [one for one in names.values() if isinstance(one, torch.UntypedStorage)]
        # The object through which Python asks is a user, too. There is only one for each storage, so that where the
        # program holds it already, it is none that the question has added.
        asking = not any(one._cdata == storage._cdata for one in held)
        users = torch._C._storage_Use_Count(storage._cdata) - asking
    return Facts(
        int(tensor.storage_offset()) if users is not None else 0,
        users,
        None if tensor.is_inference() else tensor._version,
        tensor.device.type,
        tensor.element_size(),
        tensor.numel(),
        users is not None and tensor.is_contiguous(),
        torch.is_inference_mode_enabled(),
    )


def hidden_cases(random: Random) -> list[Case]:
    """What is easily missed, with drawn sizes and offsets, then programs of steps that are drawn."""

    def number() -> int:
        return random.randint(1, 5)

    programs = {
        "bytes": [
            f"x = torch.zeros({number() + 9}, dtype=torch.{random.choice(['float64', 'complex64', 'int64'])})",
            f"y = x[{number()}:]",
            "inside(y)",
            f"z = y[{number() - 1}::2]",
            "inside(z)",
        ],
        "no elements": [
            f"x = torch.zeros({number() + 6}, 3)",
            f"none = x[{(start := number() + 1)}:{start}]",
            "inside(none)",
            "inside(torch.zeros(0))",
            f"number = x[{number()}, 2]",
            "inside(number)",
        ],
        "meta": [
            f"x = torch.empty({number() + 3}, 2, device='meta')",
            "y = x[2:]",
            "x.add_(1)",
            "inside(y)",
        ],
        "large": _large(random),
        "holders": [
            f"views = list(torch.zeros(2, {number() + 2}).unbind(1))",
            "inside(views[1])",
            *["views.append(views[0][:1])" for _ in range(number())],
            "inside(views[0])",
            "kept = [views[2]]",
            "inside(kept[0])",
            "views.clear()",
            "inside(kept[0])",
        ],
        "writes": [
            f"x = torch.zeros({number() + 2}, 3)",
            "y = x.t()",
            *["y[0] = 7" for _ in range(number())],
            "inside(x)",
            "x.data.add_(1)",
            "inside(y)",
            "inside(x.data)",
            "w = torch.ones(2, requires_grad=True)",
            "with torch.no_grad(): w.mul_(2)",
            "inside(w)",
        ],
        "inference": [
            f"x = torch.zeros({number() + 1})",
            "with torch.inference_mode(): view = x[1:]; x.add_(1); inside(view)",
            "inside(x)",
            f"with torch.inference_mode(): made = torch.ones({number()}).add_(1); inside(made)",
            "inside(made)",
            "inside(made + 1)",
        ],
        "no storage": [f"x = torch.eye({number()}).to_sparse{random.choice(['', '_csr'])}()", "inside(x)"],
    }
    programs |= {f"drawn {which}": _drawn(random) for which in range(4)}
    return [
        Case(name, {"number": random.randrange(2**31)}, kept={"program": program}) for name, program in programs.items()
    ]


def _large(random: Random) -> Program:
    """Tensors without memory, which begin further behind than a `float`, an `int` or a `double` can tell."""
    near = random.randint(1, 9)
    program = ["x = torch.empty(2**60, dtype=torch.int8, device='meta')", f"inside(x[{near}:])"]
    for bits in random.sample([24, 31, 32, 53], 4):
        # An odd number needs all of its bits.
        program.append(f"inside(x[2**{bits} + {2 * random.randint(0, 50) + 1}:])")
    wide = random.choice(["float64", "complex64", "int64"])
    program += [
        f"y = torch.empty(2**34, 3, dtype=torch.{wide}, device='meta')",
        f"inside(y[2**{random.choice([31, 32, 33])} + {near}])",
    ]
    return program


def _drawn(random: Random) -> Program:
    """A program of views, copies and writes, that ends with a question about every tensor that is left."""
    sizes = [random.randint(2, 5) for _ in range(random.choice([1, 2, 3]))]
    program = [f"a = torch.ones({sizes}, dtype=torch.{random.choice(['float32', 'float64', 'float16', 'complex64'])})"]
    alive = {"torch": torch}
    exec(program[0], alive)
    letters = iter("bcdefghijklmn")
    while len(program) < 12:
        name = random.choice([one for one in alive if isinstance(alive[one], torch.Tensor)])
        rank = alive[name].dim()
        size = alive[name].shape[0] if rank else 0
        views = [f"{name}.detach()", f"{name}.data", f"{name}.clone()", f"{name}.reshape(-1)", f"{name}[None]"]
        if rank:
            start = random.randint(0, size)
            views += [f"{name}[{start}:{random.randint(start, size)}]", f"{name}.transpose(0, -1)"] * 3
        changes = [f"{name}.add_(1)", f"{name}.data.mul_(2)", f"inside({name})"]
        if len(alive) > 4:
            changes.append(f"del {name}")
        line = random.choice(changes) if random.random() < 0.4 else f"{next(letters)} = {random.choice(views)}"
        program.append(line)
        if line.startswith("del"):
            del alive[name]
        elif not line.startswith("inside"):
            exec(line, alive)
    left = [name for name, one in alive.items() if isinstance(one, torch.Tensor)]
    random.shuffle(left)
    return [*program, *(f"inside({name})" for name in left)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    if "answers" not in evidence.values:
        yield from before_computing(evidence)
        return
    schema = evidence.values["schema"]
    if schema != SCHEMA:
        yield ("not there", "") if schema is None else ("another schema", f"(found {schema})")
        return
    wanted = run(case.kept["program"], facts)
    pairs = list(zip(wanted, evidence.values["answers"], strict=True))
    for one, seen in pairs:
        if (one.users is None) != bool(seen["raised"]):
            yield _refusal(one, seen["raised"])
            return
    read = [(one, *seen["found"]) for one, seen in pairs if not seen["raised"]]
    off = next(((one, *found) for one, *found in read if found != [one.offset, one.users, one.version]), None)
    if off is not None:
        one, *found = off
        yield _named(read), f"(found {tuple(found)}, wanted {(one.offset, one.users, one.version)})"


def _refusal(one: Facts, raised: str) -> tuple[str, str]:
    if one.users is None:
        return "takes what has no storage", ""
    if one.version is None and "version counter" in raised:
        return "no counter to read", ""
    named = "one device only" if one.device != "cpu" and raised.startswith("NotImplementedError") else "refused"
    return named, f"({first_line(raised)[:160]})"


def _named(read: list[tuple[Facts, int, int, int | None]]) -> str:
    """Why the numbers are others than the facts."""
    spread = [(offset, users) for one, offset, users, _ in read if not one.contiguous]
    if spread and all(found == (0, 1) for found in spread) and any(one.users != 1 for one, *_ in read):
        return "reads a copy"
    if any(offset != one.offset for one, offset, *_ in read):
        if all(offset == one.offset * one.itemsize for one, offset, *_ in read):
            return "offset in bytes"
        small = [(offset, one.offset) for one, offset, *_ in read if one.offset < SMALL]
        if any(right for _, right in small) and all(offset == right for offset, right in small):
            return "narrow offset"
        with_elements = all(offset == one.offset for one, offset, *_ in read if one.elements)
        return "offset from addresses" if with_elements else "another offset"
    more = {users - one.users for one, _, users, _ in read if one.users is not None}
    if more != {0}:
        if min(more) < 0:
            return "counts something else"
        return "you hold it, too" if len(more) == 1 else "another count"
    versions = [(one, version) for one, _, _, version in read if version != one.version]
    if any(one.version is None for one, _ in versions):
        return "made-up version"
    if all(version is None and one.inference_mode for one, version in versions):
        return "asks the mode"
    return "another counter" if all(version == 0 for _, version in versions) else "another version"
