"""Capture through Dynamo: follows Python's bytecode, and breaks the graph where it cannot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._functorch.autograd_function import autograd_function_apply
from torch.utils._python_dispatch import TorchDispatchMode

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.dimensions import Dynamic, mark_dimensions, named_leaves
from fxopt_core.capture.dynamo_log import graph_breaks, guards, messages_of, without_repeated_warnings
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.questions import answers_of, asked_by
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import ISOLATED, Replay, ReplayRunner
from fxopt_core.capture.sources import dynamo_inputs
from fxopt_core.graphs.names import count_operations
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import State

_SYMBOL = re.compile(r"[a-z]+\d+")
"""A symbol in a size, as torch writes it."""


class GraphExtractor:
    """A backend for `torch.compile` that records the graphs and runs them unchanged.

    ```python
    extractor = GraphExtractor()
    compiled = torch.compile(model, backend=extractor)
    compiled(example_input)
    print(len(extractor.partitions), "graphs")
    ```

    Dynamo calls the backend once for each graph, in the order of the code. The example inputs that it hands
    over are the parameters, buffers and arguments that the graph reads, one for each placeholder.

    Attributes:
        partitions: the graphs in the order of capture, with what their inputs stand for, and the values
            of their first run.
    """

    def __init__(self) -> None:
        self.partitions: list[CapturedGraph] = []

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Keep the graph; the callable returned is what Dynamo runs in place of the user's code."""
        partition = CapturedGraph(graph_module, dynamo_inputs(graph_module))
        self.partitions.append(partition)
        return partition.run

    @property
    def graphs(self) -> tuple[fx.GraphModule, ...]:
        """The captured graphs in the order of capture."""
        return tuple(partition.graph_module for partition in self.partitions)

    def operation_counts(self) -> Counter[str]:
        """How often each operation occurs over all graphs."""
        return sum((count_operations(graph) for graph in self.graphs), Counter())


class CountedOperators(TorchDispatchMode):
    """Counts the operators that run inside.

    Attributes:
        operators: how many so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run it and count it."""
        self.operators += 1
        return operator(*args, **(kwargs or {}))


def capture_with_dynamo(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, *, fullgraph: bool = False
) -> Captured:
    """Compile `model` with a `GraphExtractor` as the backend, call it once, and report what Dynamo did.

    With `fullgraph` a graph break is an error of Dynamo's.
    """
    state = State(model)
    # Dynamo fixes the answers to all other questions, and guards none of them.
    answers = answers_of(asked_by(model, args, kwargs) - {"requires_grad"}, named_leaves(model, args, kwargs))
    captured = run_dynamo(model, args, kwargs, dynamic, GraphExtractor(), fullgraph=fullgraph)
    one_graph = len(captured.partitions) == 1 and not captured.graph_breaks
    caveats = captured.caveats + _written_by_python(model, state)
    state.put_back()
    runner = ReplayRunner(model, dynamic, Replay(captured.partitions, "dynamo"), answers, fullgraph=one_graph)
    return replace(captured, runner=runner, caveats=caveats)


def _written_by_python(model: Model, before: State) -> tuple[str, ...]:
    """What the call changed other than in place: Dynamo leaves it to Python code around the graphs."""
    outside = [
        f"self.{name}"
        for name, value in sorted(before.changes().items())
        if name not in before.registered or value is not before.live.get(name)
    ]
    if not outside or not isinstance(model, torch.nn.Module):
        return ()
    return (f"The call also changes {', '.join(outside)}: Python does, after the graphs, and no graph says so.",)


def run_dynamo(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    extractor: GraphExtractor,
    *,
    method: str = "dynamo",
    level: str = "torch",
    fullgraph: bool = False,
    then: Callable[[Any], None] = lambda outputs: None,
) -> Captured:
    """Compile `model` with `extractor` as the backend, call it once, and report what Dynamo did.

    Dynamo's state is reset before (else code that it already knows would give no graph) and after: whatever
    the process has compiled so far compiles anew at its next call.

    Args:
        model: the model, which may be changed; so may its inputs.
        args: positional arguments.
        kwargs: keyword arguments.
        dynamic: which sizes may vary.
        extractor: keeps the graphs.
        method: the method that `Captured` and errors name.
        level: the dialect of the graphs.
        fullgraph: whether a graph break is an error.
        then: is called with the model's outputs, while Dynamo is still heard.

    Raises:
        CaptureError: a range begins below 2, or the model needs two named sizes to be equal.
    """
    torch._dynamo.reset()
    try:
        with (
            messages_of("graph_breaks") as about_breaks,
            messages_of("guards") as about_guards,
            without_repeated_warnings(),
            mark_dimensions(dynamic, named_leaves(model, args, kwargs), method),
        ):
            compiled = torch.compile(model, backend=extractor, dynamic=dynamic.choice, fullgraph=fullgraph, **ISOLATED)
            then(compiled(*args, **kwargs))
    finally:
        torch._dynamo.reset()
    graphs = tuple(extractor.partitions)
    captured = Captured(graphs, method, level, graph_breaks(about_breaks), guards(about_guards), dynamic=dynamic)
    _refuse_merged(captured)
    return replace(captured, caveats=tuple(_caveats(captured)))


def _refuse_merged(captured: Captured) -> None:
    """Dynamo makes one symbol of sizes that the model needs to be equal, also where `dynamic` tells them apart.

    Raises:
        CaptureError: two names share a symbol.
    """
    names = {place: one.name for one in captured.dynamic.dimensions for place in one.places}
    known: dict[str, str] = {}
    inputs = [one for graph in captured.partitions for one in graph.inputs]
    for source, axis, size in [(one.source, *size) for one in inputs for size in enumerate(one.shape or ())]:
        name = names.get((source, axis), "")
        for symbol in _SYMBOL.findall(str(size)) if name else ():
            if known.setdefault(symbol, name) != name:
                raise CaptureError(
                    captured.method,
                    f"dimensions {known[symbol]!r} and {name!r} cannot vary apart: the model needs them to be equal.",
                    "give them one name.",
                )


def differentiated_once(graphs: Iterable[fx.GraphModule]) -> Iterator[str]:
    """Where gradients of gradients end: Dynamo writes the backward of an `autograd.Function` without its own graph."""
    lines = []
    for graph_module in graphs:
        for node in graph_module.graph.find_nodes(op="call_function", target=autograd_function_apply):
            trace = (node.meta.get("stack_trace") or "").strip().splitlines()
            # The last line may be one of carets.
            lines += [line.strip() for line in trace if line.strip(" ^~")][-1:] or [node.name]
    if lines:
        at = ", ".join(dict.fromkeys(lines))
        yield (
            f"Gradients of gradients end at the autograd.Function that is called here: {at}. The graph differentiates "
            "it once; for second derivatives call the model."
        )


def _caveats(captured: Captured) -> Iterator[str]:
    """What the graphs of a Dynamo capture do not say about the model."""
    forward = sum(graph.role == "forward" for graph in captured.partitions)
    if forward == 0:
        yield "No graph: the call had no tensor operation outside the functions that Dynamo left to Python."
    if forward > 1:
        yield (
            f"The call runs {forward} graphs. The Python code between them is in none of them, and of a "
            "branch on data only the side that this input took was captured."
        )
    for location in dict.fromkeys(one.location for one in captured.graph_breaks if one.skips_function):
        yield (
            f"After {location} Dynamo left the function to Python: its other operations are in no graph, except those "
            "in functions that it calls."
        )
    yield from differentiated_once(captured.graphs)
    if forward and not captured.guards:
        yield f"The guards could not be read from the log of torch {torch.__version__}."
    if forward:
        yield "The graphs hold only while their guards do: other shapes or types may be captured anew."
