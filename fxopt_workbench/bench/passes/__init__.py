"""How fast passes over graphs are, beside what torch offers for the same work."""

from fxopt_workbench.bench.passes.comparing import COLLECTOR_ON, COLLECTOR_PAUSED, Row, compare
from fxopt_workbench.bench.passes.graphs import (
    butterflies,
    dense_chain,
    example_inputs,
    fresh_copy,
    synthetic_aten_graph,
)
from fxopt_workbench.bench.passes.peers import PEERS, Peer
from fxopt_workbench.bench.passes.report import comparison_table, document, growth_table, growths

__all__ = [
    "COLLECTOR_ON",
    "COLLECTOR_PAUSED",
    "PEERS",
    "Peer",
    "Row",
    "butterflies",
    "compare",
    "comparison_table",
    "dense_chain",
    "document",
    "example_inputs",
    "fresh_copy",
    "growth_table",
    "growths",
    "synthetic_aten_graph",
]
