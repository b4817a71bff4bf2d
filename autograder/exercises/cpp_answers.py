"""What judges of C++ share: the library that a source makes, and what is wrong before it has computed anything."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autograder.exchange.building import ENDLESS, built
from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.apart import ENDED, SAID
from fxopt_workbench.cpp import CompileError, EndlessBuildError

MISCONCEPTIONS = {
    "does not compile": "Your source cannot be built.",
    ENDLESS: (
        "The compiler came to no end over your source. If other programs keep this machine busy, try again when they "
        "have ended. Otherwise look for templates that unfold into others."
    ),
    "cannot be loaded": ("Your library is built, but PyTorch cannot load it: it refuses what the library registers."),
    "ended the process": (
        "Your operator did not come to an answer, in a process of its own. Is every index inside the tensor, does "
        "every loop end, and is every call on its way to another kernel?"
    ),
}
"""Join them to a task's own. In a class of tasks these come first."""


def follow_up(case: Case, evidence: Evidence) -> Case | None:
    """The case for a fresh process: the library, and what to call it with, which the learner's code has never seen."""
    try:
        library = built(str(evidence.values["source"]))
    except CompileError:
        return None
    content = torch.frombuffer(bytearray(library), dtype=torch.uint8)
    return Case(case.name, case.parameters | case.kept, {"library": content})


def before_computing(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with a source that came to no results.

    Raises:
        KeyError, ValueError: nothing is wrong with it, or there is none: then this is no evidence.
    """
    if evidence.values.get(SAID):
        # Errors in a kernel become exceptions of Python; while a library is loaded nothing catches them.
        yield "cannot be loaded", f"({evidence.values[SAID]})"
    elif ENDED in evidence.values:
        yield "ended the process", f"({evidence.values[ENDED]})"
    elif "unloadable" in evidence.values:
        yield "cannot be loaded", f"({evidence.values['unloadable']})"
    else:
        try:
            built(str(evidence.values["source"]))
        except EndlessBuildError as error:
            yield ENDLESS, f"({error})"
        except CompileError as error:
            yield "does not compile", str(error)
        else:
            raise ValueError("a source that can be built, and no results")
