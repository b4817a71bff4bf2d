"""What a graph and its nodes are: their form as plain data, for carrying graphs between processes."""

from fxopt_core.graphs.decode import decode
from fxopt_core.graphs.encode import encode
from fxopt_core.graphs.format import (
    DEFAULT_LIMITS,
    ENCODED_VALUE,
    EncodedGraph,
    GraphFormatError,
    Limits,
)
from fxopt_core.graphs.running import run

__all__ = [
    "DEFAULT_LIMITS",
    "ENCODED_VALUE",
    "EncodedGraph",
    "GraphFormatError",
    "Limits",
    "decode",
    "encode",
    "run",
]
