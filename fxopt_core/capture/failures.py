"""Why a capture method failed, in one line, and what to try."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import torch

from fxopt_core.capture.dimensions import NOTHING_DYNAMIC, Dynamic
from fxopt_core.capture.errors import CaptureError, sentence
from fxopt_core.verification.isolation import CannotCopyError, Model, private_copy

_TORCH = Path(torch.__file__).parent
_LONGEST = 300

# What torch says when a dimension cannot keep its range.
_FIXED = re.compile(r"your code specialized it to be a constant \((\d+)\)")
_NARROWED = re.compile(r"satisfy the generated guard (.*)")
_ITSELF = re.compile(r"\b(\w+) = \1\b")
_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def explain_failure(
    error: Exception,
    method: str,
    advice: str,
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic = NOTHING_DYNAMIC,
) -> CaptureError:
    """The error to raise for `error`. A copy of the model is called once to tell whose fault it is."""
    if isinstance(error, CaptureError):
        return error
    if isinstance(error, CannotCopyError):
        return CaptureError(method, str(error), "capture a module that computes the same and holds no such thing.")
    if about_a_range := constraint_error(error, dynamic, method):
        return about_a_range
    try:
        model, args, kwargs = private_copy(model, args, kwargs)
        model(*args, **kwargs)
    except Exception as own_error:
        return CaptureError(
            method,
            f"the model itself fails on these example inputs{_place(own_error)}: {_one_line(own_error)}",
            "call model(*example_inputs) and correct the inputs or the model first.",
        )
    return CaptureError(method, in_one_line(error, method, dynamic), advice)


def in_one_line(error: Exception, method: str, dynamic: Dynamic) -> str:
    """What failed and where, without asking the model."""
    error = constraint_error(error, dynamic, method) or error
    if isinstance(error, CaptureError):
        return error.failure
    return f"{type(error).__name__}{_place(error)}: {_one_line(error)}"


def _place(error: BaseException) -> str:
    """The innermost line outside torch that the error passed through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_TORCH) or path.is_relative_to(Path(__file__).parent) or frame.filename.startswith("<"):
            continue
        return f" at {frame.filename}:{frame.lineno} ({frame.line})"
    return ""


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(":,;") if lines else type(error).__name__
    return sentence(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _plainly(reason: str) -> str:
    """torch's sentence without its advice about torch's own interface."""
    reason = _ITSELF.sub(r"\1", reason.split(" If you're using")[0].rstrip("."))
    if fixed := _FIXED.search(reason):
        return f"the model fixes it to {fixed[1]}"
    if narrowed := _NARROWED.search(reason):
        return f"the model's own conditions leave only {narrowed[1]}"
    return reason


def constraint_error(error: Exception, dynamic: Dynamic, method: str) -> CaptureError | None:
    """The error for a dimension that torch could not keep free, or `None` when `error` is about something else."""
    text = str(error)
    if "Constraints violated" not in text and "onstraintViolation" not in type(error).__name__:
        return None
    reasons = [line.strip(" -") for line in text.splitlines() if line.startswith("  - ")] or [text.splitlines()[0]]
    named = []
    for dimension in dynamic.dimensions:
        for source, axis in dimension.places:
            reasons = [reason.replace(f"L['{source}'].size()[{axis}]", dimension.name) for reason in reasons]
        named += [str(dimension) for reason in reasons if dimension.name in reason.split()]
    why = "; ".join(dict.fromkeys(_plainly(reason) for reason in reasons))
    lines = _USER_LINE.findall(text)
    why += f" (at {lines[-1][0]}:{lines[-1][1]})" if lines else ""
    about = f"dimension {', '.join(dict.fromkeys(named))}" if named else "a dimension"
    return CaptureError(
        method,
        f"{about} does not hold its range: {why}.",
        "narrow the range, leave the dimension out of dynamic, or take the dependence on its size out of the model.",
    )
