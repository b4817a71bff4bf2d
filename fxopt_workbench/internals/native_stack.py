"""Through which C++ functions one call of PyTorch goes: the native stack, sorted into layers.

A call that fails deep inside shows the way there. PyTorch writes its C++ stack into an error's message where
`TORCH_SHOW_CPP_STACKTRACES=1` was set when it was imported; so the call is made in a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from fxopt_workbench.tables import Table

SECONDS = 120
"""Time that the process has; importing PyTorch is most of it."""

LAYERS = (
    ("Python binding", r"^torch::autograd::THPVariable_\w+\("),
    ("dispatcher", r"^at::_ops::\w+::(call|redispatch)\("),
    ("autograd kernel", r"^torch::autograd::VariableType::"),
    ("CPU kernel", r"^at::\(anonymous namespace\)::wrapper_(CPU|Composite)\w*\("),
    ("structured kernel", r"^at::meta::structured_\w+::meta\("),
    ("TensorIterator", r"^at::TensorIteratorBase::\w+\("),
)
"""Layers from Python down to the arithmetic, and how the functions of each are named. What the build generates around
them (unboxing, wrappers of functors) belongs to none."""


class NoNativeStackError(RuntimeError):
    """This build of PyTorch, or this machine, does not name its C++ functions; the message says what came instead."""


@dataclass(frozen=True)
class Frame:
    """One C++ function that was running.

    Attributes:
        layer: one of the names in `LAYERS`.
        function: its name, without its arguments.
    """

    layer: str
    function: str


def native_stack(statement: str) -> list[Frame]:
    """The C++ functions in which a statement was when it failed, from Python inwards.

    Args:
        statement: one line of Python that raises `RuntimeError` inside PyTorch; `torch` is imported.

    Raises:
        ValueError: the statement does not fail so.
        NoNativeStackError: there is no stack with names.
    """
    program = (
        f"import torch\ntry:\n    {statement}\nexcept RuntimeError as error:\n    print(error)\nelse:\n    print('')"
    )
    # `fast` reads the names from the library itself and needs no debugger's files.
    settings = {"TORCH_SHOW_CPP_STACKTRACES": "1", "TORCH_SYMBOLIZE_MODE": "fast"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise ValueError(f"the statement {statement!r} did not get as far as PyTorch: {done.stderr[-300:]}")
    if not done.stdout.strip():
        raise ValueError(f"the statement {statement!r} does not fail, so there is no stack to show")
    frames = frames_of(done.stdout)
    if not frames:
        raise NoNativeStackError(
            "PyTorch's message names no C++ function here, as on machines other than Linux. It says: "
            f"{done.stdout.strip().splitlines()[0]}"
        )
    return frames


def frames_of(message: str) -> list[Frame]:
    """The frames of the known layers in an error's message, from Python inwards."""
    found = []
    for line in message.splitlines():
        match = re.match(r"#\d+ (.*) from \S+$", line)
        if match is None:
            continue
        for layer, pattern in LAYERS:
            if re.match(pattern, match[1]):
                found.append(Frame(layer, _without_arguments(match[1])))
    return found[::-1]


def _without_arguments(signature: str) -> str:
    return signature.replace("(anonymous namespace)::", "").partition("(")[0]


def as_table(frames: Sequence[Frame]) -> Table:
    """The frames as a table, the outermost first."""
    rows = [(str(number), frame.layer, frame.function) for number, frame in enumerate(frames, 1)]
    return Table("From Python inwards", ("", "layer", "C++ function"), rows)
