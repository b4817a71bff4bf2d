"""Which graphs came from a learner: decoding marks every node and module, and copies of them keep the mark.

In the process that judges, whatever would execute something marked raises instead (`nothing_marked_runs`): a judge that
forgets to put its question to another process is found at once, and not by a learner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx, nn
from torch.nn.modules.module import register_module_forward_pre_hook

_MARK = "from outside"


class ForbiddenExecutionError(BaseException):
    """A judge was about to execute what a learner sent in its own process. A defect of the judge, which no
    `except Exception` around a learner's graph may take for a failure of that graph."""


def mark(graph: fx.Graph) -> None:
    """Mark all nodes of a graph as a learner's."""
    for node in graph.nodes:
        node.meta[_MARK] = True


def mark_module(module: nn.Module) -> None:
    """Mark a module of `torch.nn` that a learner's graph calls."""
    vars(module)[_MARK] = True


def is_marked(module: nn.Module) -> bool:
    """Whether a module, or a graph module in any of its nodes or of the modules within it, is a learner's."""
    return any(
        _MARK in vars(part)
        or (isinstance(part, fx.GraphModule) and any(_MARK in node.meta for node in part.graph.nodes))
        for part in module.modules()
    )


@contextmanager
def nothing_marked_runs() -> Iterator[None]:
    """While this lasts, calling a marked module or interpreting a marked node raises `ForbiddenExecutionError`."""
    run_node = fx.Interpreter.run_node

    def refuse(what: object) -> None:
        raise ForbiddenExecutionError(f"{what} came from a learner: ask for what it computes (`graph_form.ask`)")

    def checked_run_node(self: fx.Interpreter, n: fx.Node) -> Any:
        if _MARK in n.meta:
            refuse(f"the node {n.name!r}")
        return run_node(self, n)

    def check_module(module: nn.Module, args: Any) -> None:
        own_nodes = module.graph.nodes if isinstance(module, fx.GraphModule) else ()
        if _MARK in vars(module) or any(_MARK in node.meta for node in own_nodes):
            refuse(f"a module of class {type(module).__name__}")

    hook = register_module_forward_pre_hook(check_module)
    fx.Interpreter.run_node = checked_run_node  # type: ignore[method-assign]
    try:
        yield
    finally:
        fx.Interpreter.run_node = run_node  # type: ignore[method-assign]
        hook.remove()
