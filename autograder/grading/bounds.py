"""Which of the walls around a learner's code hold on this machine, for `fxopt doctor`. Imports no torch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from autograder.grading.sandbox import Limits, bubblewrap, bubblewrap_command
from autograder.grading.system_calls import learner_filter
from autograder.grading.view import build_view
from fxopt_workbench.doctor import OK, WARNING, CheckOutcome

_ASK = "from autograder.learner_side.confinement import refusal_of_namespaces as refusal; print(refusal() or 'none')"

WATCHED = (
    "memory and processes of a submission are counted every 50 ms and not by a control group, so that for a moment it "
    "may hold more"
)


def refusal_here() -> str:
    """Why a submission gets no namespaces of its own inside bubblewrap's, as the kernel says it; `""` when it does."""
    with tempfile.TemporaryDirectory(prefix="fxopt-view-") as folder:
        view = Path(folder) / "view"
        view.mkdir()
        build_view(view, ())
        command = [*bubblewrap_command(view, Limits(), warm=True), sys.executable, "-P", "-c", _ASK]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = done.stdout.strip()
    if done.returncode or not said:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "bubblewrap said nothing"
    return "" if said == "none" else said


def check_bounds() -> CheckOutcome:
    """Say which bounds of grading hold here."""
    if bubblewrap() is None:
        return CheckOutcome(
            WARNING,
            "no bound but limits of time, memory and processes holds for submissions: there is no working bubblewrap",
            fix="Debian, Ubuntu: apt-get install bubblewrap; in a container, allow user namespaces",
        )
    open_ends, fixes = [], []
    refusal = refusal_here()
    if refusal:
        open_ends.append(
            f"a submission gets no namespaces of its own in a warm sandbox ({refusal}); each gets a sandbox of its own "
            "instead, which is as safe and takes seconds longer"
        )
    calls = learner_filter()
    if calls.absent:
        open_ends.append(f"system calls are not filtered, or not all of them: {calls.absent}")
        fixes.append('apt-get install libseccomp2 and pip install "fxopt[grade]"')
    if open_ends:
        return CheckOutcome(WARNING, f"{'; '.join(open_ends)}; {WATCHED}", fix="; ".join(fixes))
    return CheckOutcome(
        OK,
        "each submission has namespaces, sized scratch space, no rights and a filter of system calls of its own; "
        f"{WATCHED}",
    )
