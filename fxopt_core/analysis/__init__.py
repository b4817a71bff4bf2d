"""What a graph or a call costs."""

from fxopt_core.analysis.allocations import AllocationRecord, Block, mark, record_allocations
from fxopt_core.analysis.costs import analyze, analyze_graph
from fxopt_core.analysis.counting import Cost
from fxopt_core.analysis.report import Analysis, NodeCost
from fxopt_core.analysis.roofline import Estimate, estimate

__all__ = [
    "AllocationRecord",
    "Analysis",
    "Block",
    "Cost",
    "Estimate",
    "NodeCost",
    "analyze",
    "analyze_graph",
    "estimate",
    "mark",
    "record_allocations",
]
