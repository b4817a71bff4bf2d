"""Names of operations; they live a floor below, in `fxopt_core.graphs.names`."""

from fxopt_core.graphs.names import OPERATIONS, count_operations, is_operation, operation_name

__all__ = ["OPERATIONS", "count_operations", "is_operation", "operation_name"]
