"""What torch says when a dimension cannot keep its range, in the words of the caller."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fxopt_core.capture.dimensions import Dimension
from fxopt_core.capture.errors import CaptureError

_FIXED = re.compile(r"your code specialized it to be a constant \((\d+)\)")
_NARROWED = re.compile(r"satisfy the generated guard (.*)")
_ITSELF = re.compile(r"\b(\w+) = \1\b")
_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def _plainly(reason: str) -> str:
    """torch's sentence without its advice about torch's own interface."""
    reason = _ITSELF.sub(r"\1", reason.split(" If you're using")[0].rstrip("."))
    if fixed := _FIXED.search(reason):
        return f"the model fixes it to {fixed[1]}"
    if narrowed := _NARROWED.search(reason):
        return f"the model's own conditions leave only {narrowed[1]}"
    return reason


def violated(error: Exception, dimensions: Iterable[Dimension], method: str) -> CaptureError | None:
    """The error for a dimension that torch could not keep free, or `None` when `error` is about something else."""
    text = str(error)
    if "Constraints violated" not in text and "onstraintViolation" not in type(error).__name__:
        return None
    reasons = [line.strip(" -") for line in text.splitlines() if line.startswith("  - ")] or [text.splitlines()[0]]
    named = []
    for dimension in dimensions:
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
