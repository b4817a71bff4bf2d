"""A capture with all that people want to read about it."""

from __future__ import annotations

from dataclasses import replace

from fxopt_core.capture.result import Captured
from fxopt_workbench.capturing.breaks import explain_breaks
from fxopt_workbench.capturing.guards import explain_guards
from fxopt_workbench.capturing.symbols import guards_of_export, symbols


def explain(captured: Captured) -> Captured:
    """The capture with its open sizes, and with guards and graph breaks in words, where torch found them."""
    if captured.method not in ("dynamo", "aot", "export"):
        return captured
    found = symbols(captured)
    if captured.method == "export":
        guards = (*guards_of_export(captured, found), *captured.guards)
    else:
        guards = explain_guards(captured.guards)
    return replace(captured, graph_breaks=explain_breaks(captured.graph_breaks), guards=guards, symbols=found)
