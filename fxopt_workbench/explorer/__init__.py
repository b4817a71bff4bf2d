"""Pictures of graphs to walk through in a notebook."""

from fxopt_workbench.explorer.explorer import GraphExplorer, explore

__all__ = ["GraphExplorer", "explore"]
