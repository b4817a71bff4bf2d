"""What a comparison of two functions found, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt_core.verification import Equivalence
from fxopt_workbench.tables import Table, tables_of


@tables_of.register
def _of_equivalence(found: Equivalence) -> Sequence[Table]:
    tried = (f"Inputs: {', '.join(found.cases)}.",)
    if found.equal:
        return [Table(f"Equivalent: {found}", notes=tried)]
    rows = [(one.what, one.where, one.detail, one.case) for one in found.differences]
    headings = ("what differs", "of", "how", "inputs")
    return [Table("NOT equivalent", headings, rows, tried, headings)]
