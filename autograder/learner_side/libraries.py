"""What probes of C++ share: the learner's source as evidence, the library that was built of it, calls that may fail."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

MOST_TEXT = 300
"""Characters of an error's message that become evidence."""


def source_of(function: Callable[[], str]) -> Evidence:
    """The learner's source, as an artefact that travels to the judge.

    Raises:
        TypeError: it is no string.
    """
    source = function()
    if not isinstance(source, str):
        raise TypeError(f"your function must return the C++ source as a string, not {type(source).__name__}")
    return Evidence({"source": source})


def load_library(case: Case, namespace: str) -> Any:
    """Load the library that came with a case; the namespace of its operators.

    Raises:
        RuntimeError: it cannot be loaded; the message says why.
    """
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        Path(file.name).write_bytes(case.tensors["library"].numpy().tobytes())
        try:
            torch.ops.load_library(file.name)
        except OSError as error:
            raise RuntimeError(str(error).replace(file.name, "your library")) from error
    return getattr(torch.ops, namespace)


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, str]:
    """What a call gives, and `""`; or `None` and what it raised, in words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **options), ""
    except Exception as error:  # an operator may refuse in whatever way
        return None, f"{type(error).__name__}: {error}"[:MOST_TEXT]


_ASSERTED = re.compile(
    r'INTERNAL ASSERT FAILED at "(?:[^"]*/include/)?([^"]+)":(\d+), please report a bug to PyTorch\.?'
)
"""What a check inside PyTorch adds: where it stands on this machine, and a request that is no learner's."""


def first_line(text: str) -> str:
    """The first line of a message, and the second where the first only leads to it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return _ASSERTED.sub(r"fails in \1, line \2", told).strip()
