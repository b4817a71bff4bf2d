"""Capture through `torch.export`: one whole ATen graph, or an error."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from typing import Any

import torch
from torch._functorch import predispatch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_leaves, tree_map

from fxopt_core.capture.call_signature import separated, signature_of
from fxopt_core.capture.captured_graph import CapturedGraph, GraphInput, clone_tensors
from fxopt_core.capture.carried import refuse_hooks_on_errors
from fxopt_core.capture.conditions import ASSERTION
from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.capture.dynamo_log import Guard, without_repeated_warnings
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.module import captured_module
from fxopt_core.capture.questions import TEXT, asked_by, questions
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import Runner
from fxopt_core.capture.sources import describe_inputs, readable_source
from fxopt_core.verification.isolation import Model, as_module

LIFTED = "Parameters and buffers are inputs of the graph, before the caller's own, which are flattened."
"""The caveat that speaks of the partition, and not of the module that is called as the model is."""

KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}


def capture_with_export(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    *,
    strict: bool = False,
    axes: int | None = None,
) -> Captured:
    """Export, and keep the graph in which parameters, buffers and constants are inputs, as Dynamo's are.

    Args:
        model: the model, which may be changed; so may its inputs.
        args: positional arguments.
        kwargs: keyword arguments.
        dynamic: which sizes may vary.
        strict: Dynamo reads the code, which notices more of what a graph cannot say, and fails more often.
        axes: where `dynamic` lets all sizes vary: only those of so many first dimensions.

    Raises:
        CaptureError: the graph takes something else than these and the caller's own inputs.
    """
    refuse_hooks_on_errors(as_module(model), "export")
    given = args, kwargs
    args, kwargs = separated(model, args, kwargs)
    shapes, module = _shapes(model, args, kwargs, dynamic, axes), as_module(model)
    export = partial(torch.export.export, module, args, kwargs, dynamic_shapes=shapes, strict=strict)
    with without_partial_graph(), without_repeated_warnings(), _len_may_be_open():
        # Dynamo, which reads the code, does not tell what it asks. A call of the model does.
        if strict:
            asked, program = asked_by(module, args, kwargs), export()
        else:
            with questions() as noticed:
                program = export()
            asked = frozenset(noticed.asked)
    if TEXT in asked:
        raise CaptureError(
            "export",
            "the model writes a tensor as text (by str, repr, print or an f-string), which says its values.",
            'use method="dynamo", which leaves such a line to Python, or keep to text without tensors.',
        )
    _refuse_forward_mode(program)
    signature = signature_of(model, *given, dynamic, asked)
    called = captured_module(program.module(), module, signature, asked, guarded=bool(dynamic))
    _refuse_stand_ins(called)
    runner = Runner(called)
    inputs, values = _inputs_and_values(program, tree_leaves((args, kwargs)))
    captured = CapturedGraph(program.graph_module, inputs)
    captured.run(*clone_tensors(values))
    return Captured(
        (captured,),
        "export",
        "aten",
        guards=tuple(_guards(program)),
        caveats=_caveats(dynamic, axes),
        dynamic=dynamic,
        ranges=program.range_constraints,
        runner=runner,
    )


def _refuse_forward_mode(program: ExportedProgram) -> None:
    """What `torch.func.jvp` begins with is a node of the graph, and the mode that it switches on is not.

    Raises:
        CaptureError: the graph differentiates in forward mode.
    """
    for node in program.graph.find_nodes(op="call_function", target=predispatch._enter_dual_level):
        raise CaptureError(
            "export",
            "the model differentiates in forward mode (torch.func.jvp, jacfwd, hessian), and torch.export leaves out "
            f"of the graph the mode that {node} needs: it is off in inference mode.",
            'use method="dynamo", which records the mode too.',
        )


def _refuse_stand_ins(module: torch.nn.Module) -> None:
    """What a model writes past torch's sight (`tensor.data`, a buffer made in the call) may be left without values.

    Raises:
        CaptureError: a tensor of the module is a stand-in of the tracer's.
    """
    state = {**dict(module.named_buffers()), **dict(module.named_parameters()), **vars(module)}
    if left := [name for name, value in state.items() if isinstance(value, FakeTensor)]:
        raise CaptureError(
            "export",
            f"the model changes or makes {', '.join(left)} in a way that torch.export does not follow: no values came.",
            'use method="dynamo", or write through no_grad() and copy_ in place of .data.',
        )


def _shapes(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, axes: int | None) -> Any:
    if not dynamic.dimensions:
        return tree_map(partial(_every_dimension, axes), kwargs or args) if dynamic else None
    leaves, shapes = named_leaves(model, args, kwargs), torch.export.ShapesCollection()
    for dimension in dynamic.dimensions:
        size = torch.export.Dim(dimension.name, min=dimension.minimum, max=dimension.maximum)
        for source, axis in dimension.places:
            shapes[leaves[source]][axis] = size
    return shapes.dynamic_shapes(as_module(model), args, kwargs)


def _guards(program: ExportedProgram) -> Iterator[Guard]:
    """Which values that Python read, and which relations of sizes, the exported module checks at every call."""
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        yield Guard(str(node.args[1]).removeprefix(ASSERTION).partition(" on node ")[0], "VALUE")
    # Not in every torch since 2.11; the exported module checks it all the same.
    for code in getattr(program, "_guards_code", ()):
        yield Guard(readable_source(code), "SHAPE")


@contextmanager
def without_partial_graph() -> Iterator[None]:
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


@contextmanager
def _len_may_be_open() -> Iterator[None]:
    """Let `len(tensor)` be the symbol that `tensor.shape[0]` is: Python's own insists on a number, which fixes it."""
    original = builtins.len

    def sized(value: Any, /) -> Any:
        # Only on tensors of this very class: what Dynamo wraps, it reads itself.
        if type(value) is FakeTensor and value.dim() and isinstance(value.shape[0], torch.SymInt):
            return value.shape[0]
        return original(value)

    builtins.len = sized
    try:
        yield
    finally:
        builtins.len = original


def _every_dimension(axes: int | None, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return None
    return dict.fromkeys(range(value.dim())[:axes], torch.export.Dim.AUTO)


def _inputs_and_values(program: ExportedProgram, users: list[Any]) -> tuple[tuple[GraphInput, ...], list[Any]]:
    """What the placeholders stand for, with open sizes as symbols, and the values that the example gives them."""
    held = {**program.constants, **program.state_dict}
    remaining = iter(users)
    sources, kinds, values = [], [], []
    for spec in program.graph_signature.input_specs:
        of_user = spec.kind == InputKind.USER_INPUT
        if not of_user and not (spec.kind in KINDS and spec.target in held):
            raise CaptureError(
                "export",
                f"the exported graph takes {spec.arg.name!r}, which is a {spec.kind.name}.",
                "keep script objects and effect tokens out of the model, or use torch.export directly.",
            )
        sources.append(spec.arg.name if of_user else str(spec.target))
        kinds.append("input" if of_user else KINDS[spec.kind])
        values.append(next(remaining) if of_user else held[str(spec.target)])
    fakes = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    shown = [fake if isinstance(fake, torch.Tensor) else value for fake, value in zip(fakes, values, strict=True)]
    return describe_inputs(program.graph_module, shown, sources, kinds), values


def _caveats(dynamic: Dynamic, axes: int | None) -> tuple[str, ...]:
    if dynamic.choice and axes is not None:
        sizes = f"Only sizes of the first {axes} dimensions of each input are symbols, where the model allows it."
    elif dynamic.choice:
        sizes = "Sizes are symbols where the model allows it; where it does not, they are fixed without a word."
    elif dynamic.dimensions:
        sizes = "Every size without a name in dynamic is fixed to that of the example inputs."
    else:
        sizes = "Every size is fixed to that of the example inputs; dynamic=True lets them vary."
    return (
        sizes,
        "Values that are not tensors, and training or evaluation mode, are fixed to those of this call.",
        LIFTED,
    )
