"""A graph of TorchScript: counted and printed here, but no FX graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

from fxopt_core.capture.captured_graph import CapturedGraph, clone_tensors, drawn_from, read_random_state
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.sources import describe_input

Script = torch.jit.ScriptModule | torch.jit.ScriptFunction

CONTROL = frozenset({"prim::If", "prim::Loop"})
"""Of TorchScript's own nodes those that decide what runs; the rest makes lists, constants and attributes."""


class ScriptGraph(CapturedGraph):
    """What `jit.trace` or `jit.script` gave. It has no `graph_module`, so that nobody takes it for an FX graph.

    Attributes:
        script: runnable; `script.inlined_graph` is the graph, `script.save(path)` writes TorchScript's own file.
        method: `jit.trace` or `jit.script`.
    """

    def __init__(self, script: Script, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run `script` once on the arguments, of which clones are kept."""
        values = (*args, *kwargs.values())
        graph: Any = script.inlined_graph
        names = [one.debugName() for one in graph.inputs()][-len(values) :] if values else []
        self.script, self.method, self.role = script, method, "forward"
        self.inputs = tuple(
            describe_input(name, name.split(".")[0], value) for name, value in zip(names, values, strict=False)
        )
        self.example_inputs, random_state = clone_tensors(values), read_random_state()
        self.example_outputs = clone_tensors(script(*args, **kwargs))
        self.random_state = drawn_from(random_state)

    @property
    def graph_module(self) -> NoReturn:  # type: ignore[override]
        """There is none.

        Raises:
            CaptureError: always.
        """
        raise CaptureError(
            self.method,
            "it gives a TorchScript graph, which is not an FX graph: it can be counted and printed, not drawn, saved "
            "as Python or optimized here.",
            'captured.partitions[0].script.save(path) writes its own format; method="export" gives an FX graph.',
        )

    def operation_counts(self) -> Counter[str]:
        """How often each operator, branch and loop occurs, in nested blocks too; not how often a loop runs it."""
        return Counter(kind for kind in _kinds(self.script.inlined_graph) if _is_operation(kind))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method}, {self.operation_counts().total()} operations)"


def _is_operation(kind: str) -> bool:
    return kind in CONTROL or not kind.startswith("prim::")


def _kinds(block: Any) -> Iterator[str]:
    for node in block.nodes():
        yield node.kind()
        for inner in node.blocks():
            yield from _kinds(inner)
