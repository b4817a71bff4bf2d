"""The ways that `auto` tries for a single graph, the most faithful first.

A further one is a file with a function of this form, and an entry in `STRATEGIES`. It may change the model and inputs
that it is given, which are copies; it returns a `Captured` with one partition and a `runner` that refuses (raises)
what its graph is not for. `auto` compares the runner with the model before it takes the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.isolation import Model
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.recording import capture_with_recorder
from fxopt_core.capture.result import Captured

Strategy = Callable[[Model, tuple[Any, ...], dict[str, Any], Dynamic], Captured]

STRATEGIES: dict[str, Strategy] = {
    "export": capture_with_export,
    "export, strict": partial(capture_with_export, strict=True),
    "dynamo, fullgraph": partial(capture_with_dynamo, fullgraph=True),
}
"""Strategies by the name under which `Captured.attempts` tells of them."""

LAST_RESORT: dict[str, Strategy] = {"recorder": capture_with_recorder}
"""Tried when none of `STRATEGIES` gave a graph, whatever was adapted: a graph for the example and little else."""
