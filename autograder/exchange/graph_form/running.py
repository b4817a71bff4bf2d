"""Running a learner's graph: in another process where one is there for it, else here.

A check in the learner's own notebook runs the learner's graph there and then. The process that judges says once, with
`graphs_run_by`, who runs graphs for it; from then on every question about a decoded graph goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from torch import fx

from autograder.exchange.graph_form.decode import decode
from autograder.exchange.graph_form.format import DEFAULT_LIMITS, EncodedGraph, Limits
from autograder.exchange.graph_form.origin import is_marked, nothing_marked_runs
from autograder.exchange.graph_form.questions import flat_result_of, result_of


class GraphRunner(Protocol):
    """Puts questions about graphs to another process."""

    def ask(self, question: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """What `question(*arguments)` gives there; see `graph_form.ask`."""


_runners: list[GraphRunner] = []


@contextmanager
def graphs_run_by(runner: GraphRunner) -> Iterator[None]:
    """While this lasts, learners' graphs are run by `runner`, and running one in this process raises."""
    _runners.append(runner)
    try:
        with nothing_marked_runs():
            yield
    finally:
        _runners.pop()


def ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """What `question(*arguments)` gives, where graphs are run.

    With no learner's graph among the arguments, or in a process without a runner, it is a plain call. Else graphs and
    other arguments are sent as plain data. A graph keeps what runs write to its buffers from one question to the next;
    other arguments are never changed.

    Args:
        question: a function at the top of a module that the process which runs graphs may import: one of
            `graph_form.questions`, say.
        arguments: graph modules, and plain values with tensors among them.

    Raises:
        GraphEndedError: the graph ended the process, or took too much time or memory.
        Exception: what `question` raised there; what is no common exception of Python comes as `RuntimeError`.
    """
    if _runners and any(isinstance(one, fx.GraphModule) and is_marked(one) for one in arguments):
        return _runners[-1].ask(question, arguments)
    return question(*arguments)


class GraphEndedError(BaseException):
    """A learner's graph ended the process that ran it, or was ended.

    No `Exception`: a judge that takes whatever a graph raises for a wrong graph must not swallow it.

    Args:
        misconception: the short name, for a finding.
        message: what the learner reads.
    """

    def __init__(self, misconception: str, message: str) -> None:
        super().__init__(message)
        self.misconception, self.message = misconception, message


def run(graph: EncodedGraph | fx.GraphModule, inputs: Sequence[Any], *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """What the graph computes for `inputs`, node by node, without the code that `torch.fx` generates.

    Grad mode, autocast, functorch levels and the state of the CPU's random number generator are afterwards as they
    were before. Buffers of a graph module that is passed in keep what the graph writes to them; an encoded graph is
    not changed. For limits of time and memory, and whether `inputs` can be written to, see `ask`.

    Args:
        graph: an encoded graph, which is decoded first, or a decoded one.
        inputs: one value an argument.
        limits: for `decode`.

    Returns:
        The value of the output node, in the structure that the graph's signature says.

    Raises:
        GraphFormatError: an encoded graph is not well-formed.
        GraphEndedError: the graph ended the process that ran it, or took too much time or memory.
        Exception: whatever an operation raises for its inputs.
    """
    graph_module = decode(graph, limits=limits) if isinstance(graph, EncodedGraph) else graph
    return ask(result_of, graph_module, inputs)


def run_flat(graph: fx.GraphModule, inputs: Mapping[str, Any], seed: int = 0) -> list[Any]:
    """What a decoded graph computes, inputs by the names of its arguments and outputs as a flat list.

    In this way a graph is called alike, whether it was exported from positional or keyword arguments, and whatever
    its inputs and outputs are packed in. As with `run`, nothing stays behind in the process.

    Args:
        graph: a decoded graph.
        inputs: by the names of its arguments, the targets of placeholders; names that the graph does not have are
            left out.
        seed: of what the graph draws: two seeds tell whether it draws at all.

    Raises:
        KeyError: an argument has no input.
        GraphEndedError: the graph ended the process that ran it, or took too much time or memory.
        Exception: whatever an operation raises for its inputs.
    """
    found: list[Any] = ask(flat_result_of, graph, dict(inputs), seed)
    return found
