"""What one run of a pass did, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt_core.passes import PassResult
from fxopt_workbench.results.source_lines import without_folders
from fxopt_workbench.tables import Table, tables_of


@tables_of.register
def _of_pass(result: PassResult) -> Sequence[Table]:
    made = [(one.rule, one.change, one.exactness, without_folders(one.source)) for one in result.rewrites]
    refused = [(one.node, one.reason) for one in result.refusals]
    headings = ("rule", "before → after", "exactness", "source")
    return [
        Table(f"{result.name}, rewrites: {len(made)}", headings if made else (), made, words=headings),
        Table(f"Refusals: {len(refused)}", ("node", "reason") if refused else (), refused, words=("reason",)),
    ]
