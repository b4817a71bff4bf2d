"""Capture through `torch.export`: one whole ATen graph, or an error."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_leaves, tree_map

from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.isolation import Model, as_module
from fxopt_core.capture.listening import without_repeated_warnings
from fxopt_core.capture.partition import GraphInput, Partition
from fxopt_core.capture.result import Captured
from fxopt_core.capture.sources import describe_inputs

KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}


def capture_with_export(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool | None) -> Captured:
    """Export, and keep the graph in which parameters, buffers and constants are inputs, as Dynamo's are.

    Raises:
        CaptureError: the graph takes something else than these and the caller's own inputs.
    """
    module = as_module(model)
    shapes = tree_map(_every_dimension, kwargs or args) if dynamic else None
    with _without_partial_graph(), without_repeated_warnings():
        program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes)
    inputs, values = _inputs_and_values(program, tree_leaves((args, kwargs)))
    partition = Partition(program.graph_module, inputs)
    partition.run(*values)
    return Captured((partition,), "export", "aten", caveats=_caveats(dynamic))


@contextmanager
def _without_partial_graph() -> Iterator[None]:
    """Keep `torch.export` from printing the graph as far as it came, which it does on a failure."""
    printed = io.StringIO()
    partial_graph = ""
    try:
        with redirect_stderr(printed):
            yield
    except Exception as error:
        partial_graph = f"{getattr(error, 'partial_fx_graph', '')}\n"
        raise
    finally:
        sys.stderr.write(printed.getvalue().replace(partial_graph, "") if partial_graph else printed.getvalue())


def _every_dimension(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return None
    return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO)


def _inputs_and_values(program: ExportedProgram, users: list[Any]) -> tuple[tuple[GraphInput, ...], list[Any]]:
    held = {**program.constants, **program.state_dict}
    remaining = iter(users)
    sources, kinds, values = [], [], []
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            sources.append(spec.arg.name)
            kinds.append("input")
            values.append(next(remaining))
        elif spec.kind in KINDS and spec.target in held:
            sources.append(spec.target)
            kinds.append(KINDS[spec.kind])
            values.append(held[spec.target])
        else:
            raise CaptureError(
                "export",
                f"the exported graph takes {spec.arg.name!r}, which is a {spec.kind.name}.",
                "keep script objects and effect tokens out of the model, or use torch.export directly.",
            )
    return describe_inputs(program.graph_module, values, sources, kinds), values


def _caveats(dynamic: bool | None) -> tuple[str, ...]:
    if dynamic:
        sizes = "Sizes are symbols where the model allows it; where it does not, they are fixed without a word."
    else:
        sizes = "Every size is fixed to that of the example inputs; dynamic=True lets them vary."
    return (
        sizes,
        "Values that are not tensors, and training or evaluation mode, are fixed to those of this call.",
        "Parameters and buffers are inputs of the graph, before the caller's own, which are flattened.",
    )
