"""What a graph costs."""

from fxopt_workbench.costs.costs import analyze_graph
from fxopt_workbench.costs.counting import Cost
from fxopt_workbench.costs.report import Analysis, NodeCost

__all__ = ["Analysis", "Cost", "NodeCost", "analyze_graph"]
