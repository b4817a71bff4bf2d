"""Which graphs came from a learner: decoding marks every node, and copies of nodes keep the mark.

In the process that judges, whatever would execute a marked node raises instead (`nothing_marked_runs`): a judge that
forgets to put its question to another process is found at once, and not by a learner. Hooks of `nn.Module` would do the
same, but they are seen: by passes, which leave a module with hooks alone, and by Dynamo.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn
from torch.fx.graph_module import _WrappedCall

_MARK = "from outside"


class ForbiddenExecutionError(BaseException):
    """A judge was about to execute what a learner sent in its own process. A defect of the judge, which no
    `except Exception` around a learner's graph may take for a failure of that graph."""


def mark(graph: fx.Graph) -> None:
    """Mark all nodes of a graph as a learner's."""
    for node in graph.nodes:
        node.meta[_MARK] = True


def is_marked(module: nn.Module) -> bool:
    """Whether a graph module is a learner's, in any node of its own or of the graphs within it."""
    return any(
        isinstance(part, fx.GraphModule) and any(_MARK in node.meta for node in part.graph.nodes)
        for part in module.modules()
    )


@contextmanager
def nothing_marked_runs() -> Iterator[None]:
    """While this lasts, calling a marked graph or interpreting a marked node raises `ForbiddenExecutionError`."""
    run_node, call = fx.Interpreter.run_node, _WrappedCall.__call__

    def refuse(what: object) -> None:
        raise ForbiddenExecutionError(f"{what} came from a learner: ask for what it computes (`graph_form.ask`)")

    def checked_run_node(self: fx.Interpreter, n: fx.Node) -> Any:
        if _MARK in n.meta:
            refuse(f"the node {n.name!r}")
        return run_node(self, n)

    def checked_call(self: _WrappedCall, obj: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if is_marked(obj):
            refuse("a graph module")
        return call(self, obj, *args, **kwargs)

    fx.Interpreter.run_node = checked_run_node  # type: ignore[method-assign]
    _WrappedCall.__call__ = checked_call  # type: ignore[method-assign]
    try:
        yield
    finally:
        fx.Interpreter.run_node = run_node  # type: ignore[method-assign]
        _WrappedCall.__call__ = call  # type: ignore[method-assign]
