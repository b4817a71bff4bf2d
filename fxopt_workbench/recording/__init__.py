"""The concrete recorder: one run on real tensors, written down as a graph of ATen operators.

Python runs to its end and leaves no trace but the operators that it called, so everything that it learnt from the
example is fixed. What it learnt from a tensor's values is checked in the graph, at the place where it was read; what it
could have learnt from the inputs otherwise is checked when the graph is called; and what reaches a value in a way that
is not seen is refused.
"""

from fxopt_workbench.recording.strategy import capture_with_recorder

__all__ = ["capture_with_recorder"]
