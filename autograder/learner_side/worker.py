"""What runs a learner's cells for one task and answers its cases: the process farthest inside the sandbox.

It is forked from a warm process (see `warm`), runs the learner's cells, then answers one case at a time with the
evidence of the task's probe.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from autograder.exchange.channel import Channel, ChannelClosedError, OversizeMessageError
from autograder.learner_side.learner_shell import LearnerShell, text_of
from autograder.learner_side.outside import connect
from autograder.learner_side.stand_in import calls_of
from autograder.learner_side.withheld import WithheldImportError, withhold

ABSENT = "NotThereError"
"""What is raised in the place of a package that a task is graded without."""

LINKS = 50
"""How many exceptions that led to one another are looked at."""


def answer_cases(channel: Channel, request: dict[str, Any], shell: LearnerShell) -> None:
    """Run the learner's cells, say what became of them, then answer cases until the channel closes.

    Args:
        channel: to the grading process.
        request: `cells` (each with `id` and `source`) and `task` (`module`, `provides`, `withheld`, `unit`,
            `instrument`, and `fresh`: no cells are run then, and cases are those of the task's second probe).
        shell: runs the cells; nothing ran in it before.
    """
    from autograder.learner_side.own_functions import earlier_exports, stand_in

    task = request["task"]
    # Imported before the learner's cells run: what the probe needs is then already in memory.
    visible = import_module(task["module"] + ".visible")
    probe = visible.fresh if task["fresh"] else visible.probe
    if task["fresh"]:
        _answer(channel, probe, [], shell)
        return
    if task["instrument"]:
        connect(channel)
    stand_in(earlier_exports(task["unit"]))
    with withhold(task["withheld"]):
        for cell in request["cells"]:
            channel.send({"cell": cell["id"]})
            outputs = shell.run_cell(cell["source"])
            channel.send({"done": cell["id"], "outputs": outputs})
        missing = [name for name in task["provides"] if name not in shell.namespace]
        channel.send({"missing": missing})
        if missing:
            return
        _answer(channel, probe, task["provides"], shell)


def _answer(channel: Channel, probe: Any, names: Sequence[str], shell: LearnerShell) -> None:
    """Answer cases with what the probe makes of the learner's answers, until the channel closes."""
    from autograder.exchange.evidence import Case

    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        case = Case.from_message(message.header, message.blob)
        answers = [shell.namespace[name] for name in names]
        header, blob = observe(probe, case, answers, shell)
        try:
            channel.send(header, blob)
        except OversizeMessageError as error:
            channel.send({"raised": "ValueError", "text": f"What your code produced is too large: {error}"})


def observe(probe: Any, case: Any, answers: list[Any], shell: LearnerShell) -> tuple[dict[str, Any], bytes]:
    """Evidence of one case as a message, or what the learner's code raised instead.

    Gradients are recorded at first, as in a fresh process: a cell that switched them off for good decides nothing.
    """
    from autograder.exchange.evidence import Evidence

    try:
        with shell.muted():
            # What stands in for torch, where there is none, takes every call for one of the learner's.
            if (torch := sys.modules.get("torch")) is not None and calls_of("torch") is None:
                torch.set_grad_enabled(True)
            evidence = probe(case, *answers)
        if not isinstance(evidence, Evidence):
            raise TypeError(f"the probe returned {type(evidence).__name__}, not Evidence")
        header, blob = evidence.to_message()
        json.dumps(header)
    except BaseException as error:  # learner code may raise anything, SystemExit included
        return describe_error(error), b""
    return header, blob


def describe_error(error: BaseException) -> dict[str, Any]:
    """What a judge is told of an exception: its kind and, for visible cases only, its text."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and len(chain) < LINKS:
        chain.append(current)
        current = getattr(current, "inner_exception", None) or current.__cause__ or current.__context__
    for kind in (NotImplementedError, WithheldImportError):
        for link in chain:
            if type(link) is kind:
                return {"raised": kind.__name__, "text": str(link)[:2000]}
    known = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
    for link in chain:
        if type(link).__name__ == ABSENT:
            return {"raised": ABSENT, "text": str(link)[:2000]}
    return {"raised": known, "text": f"{type(error).__name__}: {text_of(error)}"[:1500] + _line_of_a_cell(error)}


def _line_of_a_cell(error: BaseException) -> str:
    """The last line of a notebook's cell that the exception passed through, in words; `""` where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line for frame in frames if "ipykernel_" in frame.filename or "<ipython-input" in frame.filename]
    return f" (in your line `{lines[-1][:200]}`)" if lines and lines[-1] else ""
