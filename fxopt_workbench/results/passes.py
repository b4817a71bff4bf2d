"""What one run of a pass did, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt_core.passes import PassResult, Rewrite
from fxopt_workbench.results.source_lines import source_line, without_folders
from fxopt_workbench.tables import Table, tables_of


def row_of(rewrite: Rewrite) -> tuple[str, str, str]:
    """A rewrite in one row: its rule, which nodes became which, and the line of the model that they come from."""
    after = [*map(str, rewrite.after), *(f"the value of {name}" for name in rewrite.reused)]
    change = f"{'; '.join(map(str, rewrite.before))} → {'; '.join(after) or 'nothing'}"
    return rewrite.rule, change, without_folders(source_line(rewrite.stack_trace))


@tables_of.register
def _of_pass(result: PassResult) -> Sequence[Table]:
    made = [
        (rule, change, str(one.tolerance), source) for one in result.rewrites for rule, change, source in [row_of(one)]
    ]
    refused = [(one.node, one.reason) for one in result.refusals]
    headings = ("rule", "before → after", "exactness", "source")
    return [
        Table(f"{result.name}, rewrites: {len(made)}", headings if made else (), made, words=headings),
        Table(f"Refusals: {len(refused)}", ("node", "reason") if refused else (), refused, words=("reason",)),
    ]
