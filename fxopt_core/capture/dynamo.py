"""Capture by TorchDynamo: reads bytecode, splits where it must, never fails on what Python can run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxopt_core.capture.extractor import GraphExtractor, Partition
from fxopt_core.capture.result import Captured, CaptureError, Guard

SPLIT = "the model was split into {count} graphs; the Python code between them is in none of them"
NO_GRAPH = "the model ran, but no tensor operation was captured"


def _tensor_condition(partition: Partition, source: str) -> str:
    """What Dynamo demands of the tensor that `source` names; sizes that may vary are shown as symbols."""
    if source not in partition.sources:
        return f"{source} is the same kind of tensor"
    placeholders = [node for node in partition.graph_module.graph.nodes if node.op == "placeholder"]
    value = placeholders[partition.sources.index(source)].meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return f"{source} is the same kind of tensor"
    size, stride = (f"[{', '.join(map(str, numbers))}]" for numbers in (value.shape, value.stride()))
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{source} is a {dtype} tensor of size {size} and stride {stride} on {value.device}"


def capture_by_dynamo(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Captured:
    """Run `function` once under Dynamo and keep every graph.

    Dynamo's caches are cleared before (`torch._dynamo.reset()`): what was compiled earlier in this process is
    compiled again at its next call.

    Raises:
        CaptureError: the function itself raised.
    """
    extractor = GraphExtractor()
    guards: list[Guard] = []

    def keep_guards(found: Any) -> None:
        number = len(extractor.partitions) - 1
        for guard in found:
            subject = str(guard.name() if callable(guard.name) else guard.name)
            kind = guard.create_fn_name()
            expressions = [str(expression) for expression in guard.code_list or ()]
            if kind == "TENSOR_MATCH":
                # Dynamo keeps this check in C++ only; what it compares is what the graph was captured with.
                expressions = [_tensor_condition(extractor.partitions[number], subject), *expressions]
            guards.extend(Guard(kind, subject, expression, number) for expression in expressions)

    torch._dynamo.reset()
    optimise = torch._dynamo.optimize(extractor, guard_export_fn=keep_guards)
    try:
        with torch.no_grad():
            optimise(function)(*arguments, **keywords)
    except Exception as error:
        raise CaptureError(
            f"dynamo: the model raised {type(error).__name__} while it ran: {error}. "
            "Check that it runs on these inputs without being captured."
        ) from error
    finally:
        torch._dynamo.reset()
    partitions = extractor.partitions
    breaks = tuple(part.graph_break for part in partitions if part.graph_break is not None)
    caveats = []
    if len(partitions) > 1:
        caveats.append(SPLIT.format(count=len(partitions)))
    if not partitions:
        caveats.append(NO_GRAPH)
    return Captured(
        graphs=tuple(part.graph_module for part in partitions),
        method="dynamo",
        level="torch",
        graph_breaks=breaks,
        guards=tuple(guards),
        caveats=tuple(caveats),
        inputs=tuple(part.example_inputs for part in partitions),
    )
