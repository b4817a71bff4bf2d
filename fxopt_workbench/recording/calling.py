"""What a call must have in common with the recorded one, before its graph runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_structure

from fxopt_core.capture.dimensions import named_arguments, named_leaves
from fxopt_core.capture.dynamo_log import Guard
from fxopt_core.capture.errors import CaptureError
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import PLAIN
from fxopt_workbench.recording.recorder import METHOD, layout_of

_LAYOUT = ("dtype", "device", "shape", "strides", "storage offset", "conjugate bit", "negative bit")


@dataclass(frozen=True)
class CallForm:
    """Everything about a call but the values of its tensors.

    Attributes:
        structure: how the arguments are nested, with their names.
        values: of each argument that is no tensor, how Python writes it; of each tensor, its layout.
        shared: for each tensor the first one that shares its memory, and whether it is the same object.
        conditions: of the program, on which operators depend beyond their arguments.
    """

    structure: TreeSpec
    values: dict[str, Any]
    shared: dict[str, tuple[str, bool]]
    conditions: dict[str, Any]

    def check(self, other: CallForm) -> None:
        """Refuse a call of another form.

        Raises:
            CaptureError: naming the argument, what it is and what the graph was recorded for.
        """
        if other.structure != self.structure:
            raise _other("the arguments", _short(self.structure), _short(other.structure))
        for name, recorded in self.values.items():
            now = other.values[name]
            if now == recorded:
                continue
            if isinstance(recorded, str) or isinstance(now, str):
                raise _other(name, recorded, now)
            what = next(index for index in range(len(_LAYOUT)) if recorded[index] != now[index])
            raise _other(f"{name}, its {_LAYOUT[what]}", recorded[what], now[what])
        if other.shared != self.shared:
            raise _other("which tensors share memory", self.shared, other.shared)
        for name, recorded in self.conditions.items():
            if other.conditions[name] != recorded:
                raise _other(name, recorded, other.conditions[name])

    def guards(self) -> tuple[Guard, ...]:
        """What `check` checks, as data."""
        found = [
            Guard(f"{name} == {value}", "CONSTANT")
            if isinstance(value, str)
            else Guard(f"{name}: {value[0]}, {value[1]}, size={list(value[2])}, stride={value[3]}", "TENSOR")
            for name, value in self.values.items()
        ]
        found += [Guard(f"{name} shares memory with {first}", "ALIAS") for name, (first, _) in self.shared.items()]
        return (*found, *(Guard(f"{name} is {value}", "CONTEXT") for name, value in self.conditions.items()))


def form_of(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallForm:
    """The form of a call of `model`.

    Raises:
        CaptureError: an argument can neither be an input of a graph nor be compared.
    """
    leaves = named_leaves(model, args, kwargs)
    values: dict[str, Any] = {}
    shared: dict[str, tuple[str, bool]] = {}
    owners: dict[int, str] = {}
    for name, value in leaves.items():
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
                raise CaptureError(METHOD, f"{name} is a {type(value).__name__}.", "pass plain tensors.")
            values[name] = layout_of(value)
            owner = owners.setdefault(value.untyped_storage()._cdata, name)
            if owner != name:
                shared[name] = (owner, leaves[owner] is value)
        elif isinstance(value, PLAIN):
            values[name] = f"{type(value).__name__} {value!r}"
        else:
            raise CaptureError(METHOD, f"{name} is a {type(value).__name__}.", "pass tensors and plain values.")
    conditions: dict[str, Any] = {"torch.get_default_dtype()": torch.get_default_dtype()}
    for kind in _kinds_of_device():
        enabled = torch.is_autocast_enabled(kind)
        conditions[f"autocast on {kind}"] = torch.get_autocast_dtype(kind) if enabled else "off"
    return CallForm(
        tree_structure(dict(sorted(named_arguments(model, args, kwargs).items()))), values, shared, conditions
    )


@contextmanager
def below_autograd_and_autocast() -> Iterator[None]:
    """The conditions under which recorded operators do what they did: autocast would cast their arguments once more."""
    with torch.no_grad(), ExitStack() as stack:
        for kind in _kinds_of_device():
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _kinds_of_device() -> list[str]:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu"] if accelerator is None else ["cpu", accelerator.type]


def _other(what: str, recorded: Any, now: Any) -> CaptureError:
    return CaptureError(
        METHOD, f"the graph was recorded for {what}: {recorded}; got {now}.", "capture again with these."
    )


def _short(structure: TreeSpec) -> str:
    text = str(structure)
    return text if len(text) <= 200 else f"{text[:200]}…"
