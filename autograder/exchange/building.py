"""Building a learner's C++: in a sandbox where one is there for it, else as in any notebook.

The library comes back as bytes. Whoever judges never loads it: it goes on, as a tensor of bytes, to a process on the
learner's side. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fxopt_workbench import cpp

ENDLESS = "takes too long to build"
"""The misconception of a source over which the compiler comes to no end. Nobody tries it on a task's further cases."""

_runs: list[cpp.Run] = []


@contextmanager
def compilers_run_by(run: cpp.Run) -> Iterator[None]:
    """While this lasts, what compiles a learner's source is run by `run`."""
    _runs.append(run)
    try:
        yield
    finally:
        _runs.pop()


def built(source: str) -> bytes:
    """The library that a learner's source makes.

    Raises:
        CompileError: it cannot be built; the message is one line.
        NoCompilerError: there is no compiler here.
    """
    return cpp.build(source, _runs[-1]) if _runs else cpp.build(source)
