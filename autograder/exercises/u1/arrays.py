"""What the tasks on engines share: arrays as evidence. Within the learner's reach; imports no torch."""

from __future__ import annotations

from typing import Any

import numpy

MOST_NUMBERS = 400
"""Numbers of an array that become evidence; no right array has more."""


def as_array(found: Any) -> dict[str, Any] | None:
    """An array of numbers as JSON: its shape and its numbers in order; `None` for what is no such array."""
    if not isinstance(found, (numpy.ndarray, numpy.generic, int, float)) or isinstance(found, bool):
        return None
    array = numpy.asarray(found)
    if array.size > MOST_NUMBERS or array.dtype.kind not in "fiu":
        return None
    return {"shape": list(array.shape), "numbers": [float(number) for number in array.reshape(-1)]}


def in_words(found: dict[str, Any] | None) -> str:
    """An array as the check and the judge tell of it."""
    if found is None:
        return "nothing"
    numbers = ", ".join(f"{number:.4g}" for number in found["numbers"][:6])
    more = ", …" if len(found["numbers"]) > 6 else ""
    return f"[{numbers}{more}] of shape {tuple(found['shape'])}" if found["shape"] else numbers
