"""`fxopt` with a stand-in for worker and judge, for tests of all around them: `python stub_grader.py grade …`.

What a learner's answer says decides what happens. `stub: slow` takes a second, `stub: waits` waits for a file, `stub:
lost` fails without a sandbox, `stub: full` without disk space, `stub: dies` kills the process that grades. Processes
that are started from here import this file, and so have the stand-in, too.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import autograder  # noqa: F401, I001 (before what reads notebooks, for what it puts off: `autograder.exchange.deferring`)
from classroom import TASK, cell, stand_in

from autograder.grading import grading, work
from autograder.grading.view import SandboxError

GO = "FXOPT_STUB_GO"
"""Environment variable that names a file, for which `stub: waits` waits."""


def stub(name: str, notebook: Any, *arguments: Any, **options: Any) -> grading.NotebookOutcome:
    """As `stand_in`, unless the answer says otherwise."""
    source = cell(notebook, TASK.answer_id).source
    if "stub: slow" in source:
        time.sleep(1.0)
    if "stub: waits" in source:
        end = time.monotonic() + 300
        while not Path(os.environ[GO]).exists() and time.monotonic() < end:
            time.sleep(0.02)
    if "stub: lost" in source:
        raise SandboxError("no process can be started")
    if "stub: full" in source:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "stub: dies" in source:
        os.kill(os.getpid(), signal.SIGKILL)
    return stand_in(name, notebook, *arguments, **options)


def stand_in_here() -> None:
    """From now on this process grades with the stand-in."""
    work.grade_notebook = stub
    work.PAUSE_SECONDS = 0.0


if __name__ in ("__main__", "__mp_main__"):
    stand_in_here()

if __name__ == "__main__":
    from fxopt_workbench.cli import main

    main()
