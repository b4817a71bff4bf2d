"""The sizes that an exported program promises, as numbers that travel."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram


def promised_ranges(program: ExportedProgram) -> dict[str, list[int | None]]:
    """For each symbol of the program's shapes its least and its greatest value; `None` where there is none."""
    limits: dict[Any, Any] = dict(program.range_constraints)
    return {str(symbol): [_bound(limit.lower), _bound(limit.upper)] for symbol, limit in limits.items()}


def _bound(value: Any) -> int | None:
    """A bound as a number; `None` for none, which torch writes as infinity or as the largest index."""
    number = int(value) if str(value).isdigit() else None
    return number if number is not None and number < 2**31 else None
