"""What a graph and its nodes are, what a node does besides computing, and the one way to change a graph."""

from fxopt_core.graphs.names import count_operations, is_operation, operation_name

__all__ = ["count_operations", "is_operation", "operation_name"]
