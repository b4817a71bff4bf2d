"""Graphs as plain data that travels between processes: JSON and tensors, never code, never pickle."""

from autograder.exchange.graph_form.decode import decode
from autograder.exchange.graph_form.encode import encode
from autograder.exchange.graph_form.format import (
    DEFAULT_LIMITS,
    ENCODED_VALUE,
    EncodedGraph,
    GraphFormatError,
    Limits,
)
from autograder.exchange.graph_form.running import process_state_restored, run, run_flat

__all__ = [
    "DEFAULT_LIMITS",
    "ENCODED_VALUE",
    "EncodedGraph",
    "GraphFormatError",
    "Limits",
    "decode",
    "encode",
    "process_state_restored",
    "run",
    "run_flat",
]
