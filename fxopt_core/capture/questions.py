"""Noticing what a model asks of torch and of its tensors, besides values, sizes and dtypes, while it is captured.

What it does with the answer is fixed in the graph: `nn.TransformerEncoderLayer` takes another path where nothing
requires grad. Most models ask for nothing of the kind, and their graphs hold whatever the answer would be. So a call is
only held to the answers for which the model asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial, wraps
from io import StringIO
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_core.verification.modes import modes
from fxopt_core.verification.state import same_state


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _base(tensor: torch.Tensor) -> Any:
    base = tensor._base
    return None if base is None else (base.dtype, tuple(base.shape), base.stride(), base.requires_grad)


def _read(name: str, tensor: torch.Tensor) -> Any:
    value = getattr(tensor, name)
    return value() if callable(value) else value


ANSWERS: dict[str, Callable[[torch.Tensor], Any]] = {
    **{name: partial(_read, name) for name in ("requires_grad", "is_leaf", "retains_grad", "_version", "output_nr")},
    **{name: partial(_read, name) for name in ("storage_offset", "_is_view", "is_inference", "is_pinned", "is_shared")},
    **dict.fromkeys(("untyped_storage", "storage", "_typed_storage"), _storage),
    "grad_fn": lambda tensor: tensor.grad_fn is not None,
    "grad": lambda tensor: tensor.is_leaf and tensor.grad is not None,
    "_base": _base,
}
"""Questions about a tensor, by the name under which Python reads them, and how a call is asked."""

MODES: dict[str, Callable[[], Any]] = {
    f"torch.{name}()": getattr(torch, name)
    for name in (
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "are_deterministic_algorithms_enabled",
        "is_deterministic_algorithms_warn_only_enabled",
        "get_deterministic_debug_mode",
        "get_float32_matmul_precision",
        "get_num_threads",
        "get_num_interop_threads",
        "get_default_device",
        "is_anomaly_enabled",
        "is_anomaly_check_nan_enabled",
    )
}
"""Questions about torch, as they are written, and the functions that answer them."""

_IMPLIED = {
    **dict.fromkeys(
        ("requires_grad", "is_leaf", "grad_fn", "retains_grad", "output_nr"),
        ("requires_grad", "torch.is_grad_enabled()"),
    ),
    "is_inference": ("torch.is_inference_mode_enabled()",),
}
"""What else the answer hangs on where the tensor is not an input, but was computed from inputs."""

_MACHINERY = (
    "torch._",
    "torch.autograd",
    "torch.export",
    "torch.fx",
    "torch.nn.modules.module",
    "torch.nn.parameter",
    "torch.overrides",
    "torch.utils._",
)
"""Modules of torch that ask for reasons of their own: to save and put back the mode, to make stand-ins of tensors."""


def answer_of(question: str, tensor: torch.Tensor) -> Any:
    """What a tensor answers; in words where it cannot be asked, as inside a transform of `torch.func`."""
    try:
        return ANSWERS[question](tensor)
    except (RuntimeError, NotImplementedError) as error:
        return f"no answer ({type(error).__name__})"


Answers = dict[str, dict[str, Any]]
"""By name of a tensor and by question: what it answers."""


def answers_of(asked: Iterable[str], leaves: Mapping[str, Any]) -> Answers:
    """What each tensor among the leaves answers to those of `ANSWERS` that are `asked`, and of a zero its sign."""
    found: Answers = {}
    for name, leaf in leaves.items():
        if isinstance(leaf, torch.Tensor):
            found[name] = {one: answer_of(one, leaf) for one in sorted(ANSWERS.keys() & set(asked))}
        elif isinstance(leaf, (float, complex)) and leaf == 0:
            found[name] = {"the sign": repr(leaf)}  # to Dynamo's guards -0.0 is 0.0
    return found


def refuse_other_answers(expected: Answers, leaves: Mapping[str, Any]) -> None:
    """Refuse a call whose tensors answer otherwise than those of the captured call.

    Raises:
        RefusedInputError: one does, or a zero has the other sign.
    """
    for name, answers in expected.items():
        for question, found in answers_of(answers, {name: leaves.get(name)}).get(name, {}).items():
            if found != (told := answers.get(question, found)):
                advice = "The model asks for it. Pass a tensor like the example's, or capture again with such an input."
                raise RefusedInputError(f"{question} of {name}", str(told), str(found), advice)


def modes_now(asked: Iterable[str]) -> dict[str, Any]:
    """The modes on which the meaning of operations depends, and those of `MODES` that are `asked` for."""
    always = {name: mode for name, mode in modes().items() if name != "grad mode"}
    return always | {name: MODES[name]() for name in sorted(MODES.keys() & set(asked))}


class Questions(TorchFunctionMode):
    """While active, notices each question of the model's about a tensor.

    Attributes:
        asked: their names, as in `ANSWERS` and `MODES`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, and see whether it is a question."""
        name = getattr(function, "__name__", "")
        # An attribute is read through the `__get__` of its descriptor.
        name = getattr(function.__self__, "__name__", "") if name == "__get__" else name
        if name in ANSWERS:
            self.note(name, sys._getframe(1))
        return function(*args, **(kwargs or {}))

    def note(self, name: str, frame: FrameType | None) -> None:
        """See who asks: `torch.export` has modes of its own, through which the question comes."""
        while frame is not None and frame.f_code.co_name == "__torch_function__":
            frame = frame.f_back
        asking = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        if not asking.startswith(_MACHINERY):
            self.asked |= {name, *_IMPLIED.get(name, ())}


@contextmanager
def questions() -> Iterator[Questions]:
    """Notice the questions inside the block, about tensors and about torch."""
    with Questions() as noticed, ExitStack() as stack:
        for name, original in MODES.items():
            stack.callback(setattr, torch, original.__name__, original)
            setattr(torch, original.__name__, _noticing(noticed, name, original))
        yield noticed


def asked_by(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
    """The questions that a call of the model asks. A copy is called, and what it prints is not shown."""
    copied, args, kwargs = private_copy(model, args, kwargs)
    with same_state(copied), redirect_stdout(StringIO()), questions() as noticed:
        copied(*args, **kwargs)
    return frozenset(noticed.asked)


def _noticing(noticed: Questions, name: str, original: Callable[[], Any]) -> Callable[[], Any]:
    @wraps(original)
    def ask() -> Any:
        noticed.note(name, sys._getframe(1))
        return original()

    return ask
