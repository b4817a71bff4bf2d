"""How a task's judge is asked: its cases, its verdict on one case, and the verdict on code that raised.

A check in the notebook and the judging process of a grade both come here. Imports no torch.
"""

from __future__ import annotations

import builtins
import random
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from autograder.course.task import Task
from autograder.exchange.verdict import Agreement, CaseVerdict, Deviation, Finding, write_your_own

if TYPE_CHECKING:
    from autograder.exchange.evidence import Case, Evidence, Instrument

UNREADABLE = "What your code produced could not be read back: {reason}."
ASKED = "asked PyTorch"
"""The misconception of calling a package that the task is graded without."""

RAISED = "Your code raised {kind}."


class JudgeError(RuntimeError):
    """The judge itself failed: a defect of the exercise or of this machine, never the learner's fault."""


def judge_module(task: Task) -> ModuleType:
    """The task's judge. Only judges and checks import it; the sandbox does not have it."""
    return import_module(task.module + ".judge")


def visible_cases(task: Task) -> list[Case]:
    """The cases that a learner sees."""
    return list(import_module(task.module + ".visible").visible_cases())


def hidden_cases(task: Task, seed: str) -> list[Case]:
    """The cases that come from the secret seed; the same seed gives the same cases."""
    return list(judge_module(task).hidden_cases(random.Random(f"{seed}/{task.name}")))


def instrument_of(task: Task, case: Case) -> Instrument:
    """The instrument that a probe of this task asks, as new."""
    made: Instrument = import_module(task.module + ".visible").instrument(case)
    return made


def follow_up(task: Task, case: Case, evidence: Evidence) -> Case | None:
    """What a fresh process is to do with what the learner's code made; `None` where there is nothing to go on with."""
    found: Case | None = judge_module(task).follow_up(case, evidence)
    return found


def judge_case(task: Task, case: Case, evidence: Evidence, hidden: bool) -> CaseVerdict:
    """The judge's findings on the evidence of one case. A dictionary among them holds figures for a report.

    Raises:
        JudgeError: the judge names a misconception that its table does not have.
    """
    from autograder.exchange.graph_form import GraphFormatError

    module = judge_module(task)
    try:
        found = list(module.judge(case, evidence))
    except GraphFormatError as error:
        # The text quotes what the learner's side sent, which may be a hidden input: a detail, never the message.
        finding = Finding("unreadable graph", UNREADABLE.format(reason="a graph in it is malformed"), str(error)[:500])
        return CaseVerdict(case.name, hidden, (finding,))
    findings = []
    excluded = []
    figures: dict[str, Any] = {}

    def explained(name: str) -> str:
        message = module.MISCONCEPTIONS.get(name)
        if message is None:
            raise JudgeError(f"{task.name}: the judge found {name!r}, which its MISCONCEPTIONS do not explain")
        return str(message)

    for item in found:
        if isinstance(item, dict):
            figures |= item
        elif isinstance(item, Deviation):
            fits = tuple((name, explained(name)) for name in item.fits)
            about = explained(item.question)
            findings.append(Finding(item.question, about, item.figures, item.question, fits, item.size))
        elif isinstance(item, Agreement):
            excluded.append((item.question, item.excluded))
        else:
            name, detail = item
            findings.append(Finding(name, explained(name), detail))
    return CaseVerdict(case.name, hidden, tuple(findings), figures, tuple(excluded))


def error_verdict(task: Task, case_name: str, raised: dict[str, Any], hidden: bool) -> CaseVerdict:
    """The verdict on a case in which the learner's code raised.

    `raised` comes from the learner's side, which may have put a hidden input into every word of it: the message
    is made of names that we know, and the text is shown for visible cases only.
    """
    kind, text = str(raised.get("raised")), str(raised.get("text"))[:2000]
    if kind == "WithheldImportError":
        named = [module for module in task.withheld if f"`{module}" in text]
        message = write_your_own(max(named, key=len)) if named else "A module that answers this task is withheld."
        return CaseVerdict(case_name, hidden, (Finding("withheld import", message),))
    if kind == "NotThereError" and task.without:
        asked = judge_module(task).MISCONCEPTIONS.get(ASKED)
        if asked is not None:
            return CaseVerdict(case_name, hidden, (Finding(ASKED, asked, text),))
    known = getattr(builtins, kind, None)
    if not (isinstance(known, type) and issubclass(known, BaseException)):
        kind = "Exception"
    return CaseVerdict(
        case_name, hidden, (Finding("raised", RAISED.format(kind=kind), text.removeprefix(f"{kind}: ")),)
    )
