"""What a graph or a call costs."""

from fxopt_core.costs.allocations import AllocationRecord, Block, mark, record_allocations
from fxopt_core.costs.costs import analyze_graph
from fxopt_core.costs.counting import Cost
from fxopt_core.costs.report import Analysis, NodeCost

__all__ = ["AllocationRecord", "Analysis", "Block", "Cost", "NodeCost", "analyze_graph", "mark", "record_allocations"]
