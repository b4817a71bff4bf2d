"""Captured graphs as one Python file that runs by itself.

`graph_module.code` does not: it is a single method with free names (`torch`, `device`, `inf`), without the weights
that it reads from `self`, and without an input to call it with.
"""

from fxopt_workbench.standalone.saving import save_standalone

__all__ = ["save_standalone"]
