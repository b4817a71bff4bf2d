"""What a comparison of two functions found, as tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fxopt_core.verification import Equivalence
from fxopt_workbench.tables import Table, document_of, tables_of


@tables_of.register
def _of_equivalence(found: Equivalence) -> Sequence[Table]:
    tried = (f"Inputs: {', '.join(found.cases)}.",)
    if found.equal:
        return [Table(f"Equivalent: {found}", notes=tried)]
    rows = [(one.what, one.where, one.detail, one.case) for one in found.differences]
    headings = ("what differs", "of", "how", "inputs")
    return [Table("NOT equivalent", headings, rows, tried, headings)]


@document_of.register
def _json_of_equivalence(found: Equivalence) -> dict[str, Any]:
    """Everything as values that JSON can hold; an infinite error is `None`."""
    error = found.largest_error if math.isfinite(found.largest_error) else None
    return {"equal": found.equal, **asdict(found), "largest_error": error}
