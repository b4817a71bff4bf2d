"""The ways that `auto` tries for a single graph, the most faithful first, and which of them a failure rules out.

A further one is a function of this form, and an entry in `STRATEGIES`. It may change the model and inputs that it is
given, which are copies; it returns a `Captured` with one partition and a `runner` that refuses (raises) what its graph
is not for. `Search.attempt` compares the runner with the model before it takes the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch._functorch.config
import torch.fx.experimental._config

from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.extensions import Strategy
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.result import Captured
from fxopt_core.verification.isolation import Model
from fxopt_workbench.capturing.formulas import ShortFormulas


def _export_with_short_formulas(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> Captured:
    # Only where fewer sizes may vary instead: those that were named have to, however long it takes.
    with ShortFormulas() if dynamic.choice else nullcontext():
        return capture_with_export(model, args, kwargs, dynamic)


def _export_with_real_values(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, *, axes: int
) -> Captured:
    """The example's values are computed along.

    What Python asks of them (a branch, a number of pieces) is answered from them, and the graph checks at every call
    that the answer is the same.
    """
    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True):
        return capture_with_export(model, args, kwargs, dynamic, axes=axes)


def _export_with_sizes_unseen(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> Captured:
    """Where torch asks whether a size is 0 or 1, the general case is taken, not that of the example.

    So one less than two images (1) is a size like any other.
    """
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
        return capture_with_export(model, args, kwargs, dynamic)


STRATEGIES: dict[str, Strategy] = {
    "export": _export_with_short_formulas,
    "export, batch and length": partial(capture_with_export, axes=2),
    "export, real values": partial(_export_with_real_values, axes=2),
    "export, real values, fixed sizes": partial(_export_with_real_values, axes=0),
    "export, strict": partial(capture_with_export, strict=True),
    "dynamo, fullgraph": partial(capture_with_dynamo, fullgraph=True),
    "export, fixed sizes": partial(capture_with_export, axes=0),
}
"""Strategies by the name under which `Captured.attempts` tells of them."""

OPENED: dict[str, Strategy] = {
    "export": capture_with_export,
    "export, sizes unseen": _export_with_sizes_unseen,
}
"""Tried on a copy of the model in which sizes are opened that Python fixes."""

READS_AUTOGRAD = "dynamo, fullgraph"
"""The one whose graph holds what only a backward pass shows: an `autograd.Function`, a hook of a tensor."""

_ON_DATA = re.compile(r"data-?dependent|unbacked|data is not allocated", re.IGNORECASE)
_BATCH_OR_LENGTH = re.compile(r"dimension [01] of")
_READS_DATA = ("export, real values", "export, real values, fixed sizes")
_FEWER_SIZES = ("export, batch and length", "export, fixed sizes")
_READS_CODE = ("export, strict", "dynamo, fullgraph")


def refuses_batch_or_length(refused: Sequence[str]) -> bool:
    """Whether another size of the first two dimensions is among what a graph refuses."""
    return any(_BATCH_OR_LENGTH.search(on) for on in refused)


def hopeless(name: str, failures: Sequence[str], captured: Mapping[str, tuple[str, ...]], dynamic: Dynamic) -> bool:
    """Whether what came of the earlier strategies on the same model says that this one would do no better.

    Args:
        name: of the strategy.
        failures: what spoke against the earlier ones.
        captured: those that gave a graph which refuses something, and on what inputs.
        dynamic: which sizes may vary.
    """
    on_data = any(_ON_DATA.search(failure) for failure in failures)
    if name in _READS_DATA:
        return not on_data or bool(captured) or (name == _READS_DATA[1] and not dynamic.choice)
    if name in _FEWER_SIZES:
        return on_data or bool(captured) or not dynamic.choice
    if name in _READS_CODE:
        # Of sizes Dynamo knows more than export, `int(size)` for one; but where its reading of the code gave a graph
        # that refuses them, its other way to a graph would give the same. Of values the strict export knows no more.
        if name == _READS_CODE[0] and on_data:
            return True
        fixed = any(map(refuses_batch_or_length, captured.values()))
        return _READS_CODE[0] in captured or (bool(captured) and not fixed)
    return False
