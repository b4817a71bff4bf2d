"""Noticing what a model asks of torch and of its tensors, besides values, sizes and dtypes, while it is captured.

What it does with the answer is fixed in the graph: `nn.TransformerEncoderLayer` takes another path where nothing
requires grad. Most models ask for nothing of the kind, and their graphs hold whatever the answer would be. So a call is
only held to the answers for which the model asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_core.verification.modes import kinds_of_device, modes
from fxopt_core.verification.state import same_state

STRIDE = "stride"
"""The question that a `CallSignature` answers, which knows the sizes that may vary."""


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _base(tensor: torch.Tensor) -> Any:
    base = tensor._base
    return None if base is None else (base.dtype, tuple(base.shape), base.stride(), base.requires_grad)


def _has(name: str, tensor: torch.Tensor) -> bool:
    return bool(getattr(tensor, name))


def _read(name: str, tensor: torch.Tensor) -> Any:
    value = getattr(tensor, name)
    return value() if callable(value) else value


ANSWERS: dict[str, Callable[[torch.Tensor], Any]] = {
    **{name: partial(_read, name) for name in ("requires_grad", "is_leaf", "retains_grad", "_version", "output_nr")},
    **{name: partial(_read, name) for name in ("storage_offset", "_is_view", "is_inference", "is_pinned", "is_shared")},
    **{name: partial(_has, name) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")},
    STRIDE: lambda tensor: "as it lies",
    **dict.fromkeys(("untyped_storage", "storage", "_typed_storage"), _storage),
    "grad_fn": lambda tensor: tensor.grad_fn is not None,
    "grad": lambda tensor: tensor.is_leaf and tensor.grad is not None,
    "_base": _base,
}
"""Questions about a tensor, by the name under which Python reads them, and how a call is asked."""

_FUNCTIONS = {
    torch: (
        *("is_grad_enabled", "is_inference_mode_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"),
        *("are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled"),
        *("get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_threads", "get_num_interop_threads"),
        *("get_autocast_dtype", "is_autocast_cache_enabled", "is_warn_always_enabled"),
    ),
    torch.backends.mha: ("get_fastpath_enabled",),
    torch.backends.cuda: ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled", "cudnn_sdp_enabled"),
}
_PROPERTIES: dict[Any, tuple[str, ...]] = {
    torch.backends.cudnn: ("enabled", "deterministic", "benchmark", "allow_tf32"),
    torch.backends.mkldnn: ("enabled", "deterministic", "allow_tf32"),
    torch.utils.deterministic: ("fill_uninitialized_memory",),
}

_SETTINGS = {f"{owner.__name__}.{name}": (owner, name) for owner, names in _PROPERTIES.items() for name in names}

MODES: dict[str, Callable[[], Any]] = {
    **{f"{owner.__name__}.{name}()": getattr(owner, name) for owner, names in _FUNCTIONS.items() for name in names},
    **{question: partial(getattr, *setting) for question, setting in _SETTINGS.items()},
    "torch.get_autocast_dtype()": lambda: {kind: torch.get_autocast_dtype(kind) for kind in kinds_of_device()},
}
"""Questions about torch, as they are written, and the functions that answer them."""

TEXT = "the text of a tensor"
"""The question of a model that writes a tensor as text, and so reads its values."""

OWN_GRADIENTS = ".apply"
"""How a question ends that is the call of an `autograd.Function` of the model's, whose backward pass is its own."""

_IMPLIED = {
    **dict.fromkeys(
        ("requires_grad", "is_leaf", "grad_fn", "retains_grad", "output_nr"),
        ("requires_grad", "torch.is_grad_enabled()"),
    ),
    "is_inference": ("torch.is_inference_mode_enabled()",),
}
"""What else the answer hangs on where the tensor is not an input, but was computed from inputs."""

_OF_A_COPY = ("is_leaf", "grad_fn", "retains_grad", "_version", "output_nr", "_base", "_is_view")
"""Questions that a copy may answer otherwise than what it was copied from."""

_MACHINERY = (
    "torch._",
    "torch.autograd",
    "torch.export",
    "torch.fx",
    "torch.nn.attention",
    "torch.nn.modules.module",
    "torch.nn.parameter",
    "torch.overrides",
    "torch.utils._",
)
"""Modules of torch that ask for reasons of their own: to save and put back the mode, to make stand-ins of tensors."""


_ON_THE_WAY = ("__torch_function__", "handle_torch_function", "__repr__", "__format__")
"""Functions of torch through which a question comes."""


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
                advice = (
                    "The model asks for it, and the graph knows the answer of a copy of the example: a leaf of "
                    f"autograd, never written to. Pass {name}.detach().clone(), with requires_grad as the example has "
                    "it, or call the model itself."
                    if question in _OF_A_COPY
                    else "The model asks for it. Pass a tensor like the example's, or capture again with such an input."
                )
                raise RefusedInputError(f"{question} of {name}", str(told), str(found), advice)


def modes_now(asked: Iterable[str]) -> dict[str, Any]:
    """The modes on which the meaning of operations depends, and those of `MODES` that are `asked` for."""
    always = {name: mode for name, mode in modes().items() if name != "grad mode"}
    return always | {name: MODES[name]() for name in sorted(MODES.keys() & set(asked))}


class Questions(TorchFunctionMode):
    """While active, notices each question of the model's about a tensor.

    Attributes:
        asked: their names, as in `ANSWERS` and `MODES`; `TEXT`; and calls that end in `OWN_GRADIENTS`.
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
        name = TEXT if name in ("__repr__", "__format__") else name
        if name in ANSWERS or name == TEXT:
            self.note(name, sys._getframe(1))
        return function(*args, **(kwargs or {}))

    def note(self, name: str, frame: FrameType | None) -> None:
        """See who asks: `torch.export` has modes of its own, through which the question comes."""
        while frame is not None and frame.f_code.co_name in _ON_THE_WAY:
            frame = frame.f_back
        asking = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        # To torch's own layers these settings choose among kernels that compute the same.
        if not asking.startswith(("torch.",) if name in _SETTINGS else _MACHINERY):
            self.asked |= {name, *_IMPLIED.get(name, ())}


@contextmanager
def questions() -> Iterator[Questions]:
    """Notice the questions inside the block, about tensors and about torch."""
    with Questions() as noticed, ExitStack() as stack:

        def put(owner: Any, name: str, other: Any) -> None:
            stack.callback(setattr, owner, name, vars(owner)[name])
            setattr(owner, name, other)

        for owner, names in _FUNCTIONS.items():
            for name in names:
                put(owner, name, _noticing(noticed, f"{owner.__name__}.{name}()", getattr(owner, name)))
        for question, (owner, name) in _SETTINGS.items():
            own: Any = vars(type(owner))[name]
            read = partial(own.__get__, owner, type(owner))
            get = _noticing(noticed, question, lambda _, read=read: read())
            put(type(owner), name, property(get, own.__set__))
        put(torch.autograd.Function, "apply", classmethod(partial(_apply, noticed, torch.autograd.Function.apply)))
        yield noticed


def asked_by(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
    """The questions that a call of the model asks. A copy is called, and what it prints is not shown."""
    copied, args, kwargs = private_copy(model, args, kwargs)
    with same_state(copied), redirect_stdout(StringIO()), questions() as noticed:
        copied(*args, **kwargs)
    return frozenset(noticed.asked)


def _noticing(noticed: Questions, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*args: Any) -> Any:
        noticed.note(name, sys._getframe(1))
        return original(*args)

    return ask


def _apply(noticed: Questions, original: Any, function: type[Any], *args: Any, **kwargs: Any) -> Any:
    # Those of torch itself, such as a checkpoint's, differentiate as autograd would.
    if not function.__module__.startswith("torch."):
        noticed.asked.add(f"{function.__qualname__}{OWN_GRADIENTS}")
    return original.__func__(function, *args, **kwargs)
