"""What a graph and its nodes are: the names of operations, and graphs as plain data that travels between processes."""

from fxopt_core.graphs.decode import decode
from fxopt_core.graphs.encode import encode
from fxopt_core.graphs.format import (
    DEFAULT_LIMITS,
    ENCODED_VALUE,
    EncodedGraph,
    GraphFormatError,
    Limits,
)
from fxopt_core.graphs.names import count_operations, is_operation, operation_name
from fxopt_core.graphs.running import run

__all__ = [
    "DEFAULT_LIMITS",
    "ENCODED_VALUE",
    "EncodedGraph",
    "GraphFormatError",
    "Limits",
    "count_operations",
    "decode",
    "encode",
    "is_operation",
    "operation_name",
    "run",
]
