"""Runs the compiler on a learner's source: in bubblewrap where it is there, without network and without the course.

A source can make a compiler read any file that it may read (`#include`, `.incbin`), and may be written against the
compiler itself. So each build gets a sandbox of its own, in which there is nothing to read but the system, PyTorch's
headers and those that were compiled ahead, and nothing to write that outlives it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autograder.grading.sandbox import Limits, bubblewrap, bubblewrap_command
from fxopt_workbench.cpp import Ended, Run, run_here

SCRATCH_BYTES = 256 << 20
"""Size of a build's temporary folder."""


def sandboxed_compiler(command: Sequence[str], given: bytes, readable: Path, seconds: float) -> Ended:
    """Run a compiler in a sandbox of its own; see `fxopt_workbench.cpp.Run`."""
    limits = replace(Limits(), scratch_bytes=SCRATCH_BYTES)
    with tempfile.TemporaryDirectory() as view:
        return run_here([*bubblewrap_command(Path(view), limits, shown=readable), *command], given, readable, seconds)


def compiler_of(sandboxed: bool | None) -> Run:
    """How compilers are run here; `None` takes the sandbox where it is there."""
    return sandboxed_compiler if (bubblewrap() is not None if sandboxed is None else sandboxed) else run_here
