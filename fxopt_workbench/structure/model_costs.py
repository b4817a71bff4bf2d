"""What one call of a model costs, found without computing it and without memory of its size."""

from __future__ import annotations

import copy
import io
import sys
from contextlib import redirect_stderr
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.dimensions import NOTHING_DYNAMIC as NOTHING
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.failures import in_one_line
from fxopt_core.costs import Analysis, analyze_graph
from fxopt_core.costs.costs import fake_like, fake_mode
from fxopt_core.verification.isolation import ExampleInputs, split_example_inputs
from fxopt_workbench.quiet import without_logs

ADVICE = (
    'express the decision as a tensor operation (torch.where, torch.cond). Or capture the model in Python: "capture" '
    'breaks the graph at such a place, and "analyze_graph" takes each of its graphs.'
)

_TELL_OF_FAILURES = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""Loggers that print a failure, which is told here in one line, at length before it is raised."""

_NEED_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    GuardOnDataDependentSymNode,
)


def analyze(model: torch.nn.Module, example_inputs: ExampleInputs) -> Analysis:
    """The costs of one call of a model in its present mode, without gradients.

    Nothing is computed and nothing of the model's size is allocated: a copy on fake tensors goes through
    `torch.export`. Model and inputs may themselves be built without memory, under `with torch.device("meta"):`; they
    are analysed as on the CPU.

    Args:
        model: the model.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.

    Raises:
        CaptureError: the model cannot be copied, or `torch.export` cannot follow it.
        ValueError: a size depends on data.
        TypeError: `example_inputs` is neither positional nor keyword arguments.
    """
    program = export_on_fake_tensors(model, example_inputs)
    parameters = {
        spec.arg.name: str(spec.target)
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.PARAMETER
    }
    return analyze_graph(program.graph_module, parameters)


def export_on_fake_tensors(model: torch.nn.Module, example_inputs: ExampleInputs) -> torch.export.ExportedProgram:
    """A copy of a model on fake tensors, exported without gradients; takes and raises what `analyze` does."""
    args, kwargs = split_example_inputs(example_inputs)
    tensors = [*model.parameters(), *model.buffers(), *tree_leaves((args, kwargs))]
    mode = fake_mode(tensors)
    printed = io.StringIO()

    def copied() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        with FakeCopyMode(mode):
            return copy.deepcopy((model, args, kwargs), _off_meta(mode, tensors))

    with without_logs(*_TELL_OF_FAILURES):
        try:
            own, own_args, own_kwargs = copied()
            with redirect_stderr(printed), mode, torch.no_grad():
                program = torch.export.export(own, own_args, own_kwargs)
        except Exception as error:
            # What was printed is the graph as far as it came.
            try:
                own, own_args, own_kwargs = copied()
                with mode, torch.no_grad():
                    own(*own_args, **own_kwargs)
            except Exception as own_error:
                if not _lacks_values(own_error):
                    raise CaptureError(
                        "export",
                        f"the model itself fails on these example inputs: {_told(own_error)}",
                        "call model(*example_inputs) and correct the inputs or the model first.",
                    ) from own_error
            raise CaptureError("export", _told(error), ADVICE) from error
    sys.stderr.write(printed.getvalue())
    return program


def _told(error: Exception) -> str:
    """What failed and where; the line of ours that called the model is not to blame."""
    first = error.__traceback__
    return in_one_line(error.with_traceback(first and first.tb_next), "export", NOTHING)


def _lacks_values(error: Exception) -> bool:
    """Whether a call failed only because fake tensors have no values, or an operator knows no fake tensors."""
    return isinstance(error, _NEED_VALUES) or any(word in str(error) for word in ("FakeTensor", "tensor subclass"))


def _off_meta(mode: FakeTensorMode, values: list[Any]) -> dict[int, torch.Tensor]:
    """Fake tensors on the CPU in the place of tensors on the meta device, by the identities of these."""
    found: dict[int, torch.Tensor] = {}
    for value in values:
        if isinstance(value, torch.Tensor) and value.device.type == "meta":
            fake = fake_like(mode, value, torch.device("cpu"))
            parameter = isinstance(value, torch.nn.Parameter)
            found[id(value)] = torch.nn.Parameter(fake, value.requires_grad) if parameter else fake
    return found
