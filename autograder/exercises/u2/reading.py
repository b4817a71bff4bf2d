"""What the probes of this unit share: reading what an answer returned, and asking where it may refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LONGEST = 200
"""Characters of an error's message that become evidence."""


def whole_number(found: Any) -> int | None:
    """A whole number as it is; `None` for anything else, `True` and `False` among it."""
    return int(found) if isinstance(found, int) and not isinstance(found, bool) else None


def whole_numbers(found: Any) -> list[int] | None:
    """A list or tuple of whole numbers as a list; `None` for anything else."""
    if not isinstance(found, (tuple, list)):
        return None
    numbers = [whole_number(number) for number in found]
    return None if None in numbers else [number for number in numbers if number is not None]


def geometry(found: Any) -> dict[str, Any]:
    """A pair (sizes, strides) as evidence; each is `None` where it is no sequence of whole numbers."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return {"sizes": None, "strides": None}
    return {"sizes": whole_numbers(found[0]), "strides": whole_numbers(found[1])}


def ask(question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What an answer came to, or `{"refused": message}` where it raised `ValueError`.

    An error of another kind that a refusal could be mistaken for is evidence, too: its name stands beside the message,
    as `kind`. Whatever else is raised ends the case.
    """
    try:
        return question()
    except ValueError as error:
        return {"refused": str(error)[:LONGEST]}
    except (LookupError, ArithmeticError, AssertionError) as error:
        return {"refused": str(error)[:LONGEST], "kind": type(error).__name__}


OTHER_ERROR = "not a ValueError"
"""The misconception of refusing with an error of another kind."""

OTHER_ERROR_TOLD = (
    "Where the text asks for a `ValueError`, your code raises an error of another kind, and nobody who waits for a "
    "`ValueError` will catch it."
)


def refusal(found: dict[str, Any]) -> str:
    """A refusal in words."""
    return f"an error of the kind {found['kind']}" if "kind" in found else "a ValueError"
