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
from autograder.exchange.graph_form.questions import process_state_restored
from autograder.exchange.graph_form.running import GraphEndedError, ask, graphs_run_by, run, run_flat

__all__ = [
    "DEFAULT_LIMITS",
    "ENCODED_VALUE",
    "EncodedGraph",
    "GraphEndedError",
    "GraphFormatError",
    "Limits",
    "ask",
    "decode",
    "encode",
    "graphs_run_by",
    "process_state_restored",
    "run",
    "run_flat",
]
