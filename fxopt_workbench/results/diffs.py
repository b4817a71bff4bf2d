"""What became of a graph, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt_core.graphs.diff import GraphDiff
from fxopt_workbench.tables import Table, tables_of

_WORDS = {"-": "removed", "+": "added", "~": "changed", " ": "kept"}


@tables_of.register
def _of_diff(diff: GraphDiff) -> Sequence[Table]:
    """The same as `as_text()`, with words for the signs."""
    rows = [
        ("kept", f"… {one} more", f"… {one} more")
        if isinstance(one, int)
        else (_WORDS[one.sign], str(one.before or ""), str(one.after or ""))
        for one in diff.excerpt(2)
    ]
    headings = ("what became", "before", "after")
    return [Table(diff.summary, headings, rows, words=headings)]
