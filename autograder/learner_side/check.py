"""Checks in the notebook: `check.day1.record_graphs(GraphRecorder)` answers at once, on visible cases.

A check runs the same probe and the same judge as a grade, on the cases that the learner may see, and shows
what the learner's own code did. While a notebook is being graded, checks do nothing.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task
from autograder.exchange.markup import with_code
from autograder.exchange.verdict import (
    NOT_WRITTEN,
    CaseVerdict,
    Finding,
    TaskOutcome,
    outcome_from_verdicts,
    write_your_own,
)
from autograder.learner_side.mode import is_grading
from autograder.learner_side.own_functions import reference_module
from autograder.learner_side.withheld import withheld_use
from autograder.learner_side.worker import describe_error
from fxopt_workbench.tables import whole_lines

MARKS = {
    "passed": "✔ passed",
    "wrong": "✘ not right yet",
    "not written": "… not yet written",
    "error": "✘ error",
}

CASES_NAMED = 3
"""How many of the cases that a message is about are named before it."""

EXHIBITS_SHOWN = 9
"""How many pictures and texts of an answer that is not right yet stand under its messages; one opens the others."""


@dataclass
class CheckResult:
    """What a check found; shows itself in the notebook, with a text twin.

    Attributes:
        outcome: the outcome on the visible cases.
        exhibits: pictures (with a text twin each) and texts of what the learner's code did; first of the cases that
            fail.
        note: what became of an answer that is exported to the learner's package.
    """

    outcome: TaskOutcome
    exhibits: list[Any] = field(default_factory=list)
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether all visible cases pass."""
        return self.outcome.status == "passed"

    def _headline(self) -> str:
        """Status and title; of what passed also how many cases, which nobody needs one by one any more."""
        line = f"{MARKS[self.outcome.status]}: {self.outcome.title}"
        cases = len(self.outcome.cases)
        return f"{line} ({cases} {'case' if cases == 1 else 'cases'})" if self.passed and cases else line

    def _lines(self) -> list[str]:
        """What passed and, with the message that tells why, what did not. Nothing of what passed altogether."""
        if self.passed:
            return []
        cases = self.outcome.cases
        failed = [verdict for verdict in cases if not verdict.passed]
        lines = [f"✔ {verdict.case}" for verdict in cases if verdict.passed]
        told: set[str] = set()
        messages = []
        for name, message in zip(self.outcome.misconceptions, self.outcome.messages, strict=True):
            # Of an exception, or of what has no name, the message tells which it is.
            about = [
                verdict.case
                for verdict in failed
                if any(one.misconception == name and message.startswith(one.message) for one in verdict.findings)
            ]
            told.update(about)
            more = f" and {len(about) - CASES_NAMED} more" if len(about) > CASES_NAMED else ""
            # With a single case there is nothing to tell apart.
            several = len(cases) > 1 and about
            named = about[:CASES_NAMED]
            listed = ("; " if any("," in name for name in named) else ", ").join(named)
            messages.append(f"✘ {listed}{more}: {message}" if several else f"→ {message}")
        untold = [f"✘ {verdict.case}" for verdict in failed if verdict.case not in told]
        return [*lines, *untold, *messages]

    def _closing(self) -> list[str]:
        hint = ["Hidden cases are tried when you submit."] if self.passed else []
        return [*hint, *([f"{self.note}."] if self.note else [])]

    def __repr__(self) -> str:
        lines = [self._headline(), *(f"  {line}" for line in [*self._lines(), *self._closing()])]
        for exhibit in self.exhibits:
            lines += ["", *(exhibit_text(exhibit).splitlines())]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        color = {"passed": "#0b6e4f", "not written": "#555555"}.get(self.outcome.status, "#a4262c")
        rows = "".join(f"<li>{with_code(line)}</li>" for line in self._lines())
        closing = "".join(f"<p>{with_code(line)}</p>" for line in self._closing())
        # What is right is one line; who wants to see it opens it.
        count = 0 if self.passed and len(self.exhibits) > 1 else EXHIBITS_SHOWN
        shown, folded = (
            "".join(_html_of(exhibit) for exhibit in part) for part in (self.exhibits[:count], self.exhibits[count:])
        )
        if folded:
            what = "More of what your code did" if count else "What your code did"
            folded = f"<details><summary>{what}</summary>{folded}</details>"
        return (
            f'<div style="border-left:4px solid {color};padding-left:0.8em">'
            f"<p><b>{html.escape(self._headline())}</b></p>"
            f"<ul style='list-style:none;padding-left:0'>{rows}</ul>{closing}{shown}{folded}</div>"
        )


def exhibit_text(exhibit: Any) -> str:
    """A text as it is; of a picture, the text that says the same."""
    return exhibit if isinstance(exhibit, str) else str(exhibit.text)


def _html_of(exhibit: Any) -> str:
    if isinstance(exhibit, str):
        return whole_lines(exhibit)
    title = html.escape(exhibit_text(exhibit).splitlines()[0])
    shown = exhibit._repr_mimebundle_().get("text/html", f"<pre>{html.escape(exhibit_text(exhibit))}</pre>")
    return f"<details><summary>What your code did. {title}</summary>{shown}</details>"


class NotWhileGrading:
    """What a check returns while the notebook is being graded."""

    def __repr__(self) -> str:
        return "Checks are not run while grading: the grade comes from the judge."


def run_check(task: Task, answers: tuple[Any, ...]) -> CheckResult:
    """Probe and judge the learner's answers on the visible cases.

    Raises:
        TypeError: the number of answers is not what the task asks for.
    """
    if len(answers) != len(task.provides):
        wanted = ", ".join(task.provides)
        raise TypeError(
            f"check.{task.unit}.{task.name}({wanted}) takes {len(task.provides)} answers, got {len(answers)}"
        )
    for answer in answers:
        module = withheld_use(answer, (*task.withheld, reference_module(task)))
        if module is not None:
            finding = Finding("withheld import", write_your_own(module))
            return CheckResult(
                outcome_from_verdicts(task.name, task.title, [CaseVerdict("your code", False, (finding,))])
            )
    from autograder.course.judges import error_verdict, follow_up, judge_case
    from autograder.exchange.evidence import Evidence

    visible = import_module(task.module + ".visible")
    verdicts: list[CaseVerdict] = []
    exhibits: list[tuple[bool, list[Any]]] = []
    for case in visible.visible_cases():
        try:
            evidence = visible.probe(case, *answers)
        except Exception as error:  # whatever the learner's code raises is a finding about that code
            raised = describe_error(error)
            if raised["raised"] == "NotImplementedError":
                return CheckResult(TaskOutcome(task.name, task.title, "not written", [NOT_WRITTEN], ["not written"]))
            verdicts.append(error_verdict(task, case.name, raised, hidden=False))
            continue
        # The judge of a grade sees evidence that has travelled; so does this one.
        evidence = Evidence.from_message(*evidence.to_message())
        if task.fresh and (more := follow_up(task, case, evidence)) is not None:
            evidence = Evidence.from_message(*visible.fresh(more).to_message())
        verdicts.append(judge_case(task, case, evidence, hidden=False))
        exhibits.append((verdicts[-1].passed, visible.show(case, evidence)))
    outcome = outcome_from_verdicts(task.name, task.title, verdicts)
    exhibits.sort(key=lambda of_case: of_case[0])  # what is not right is looked at first
    return CheckResult(outcome, [exhibit for _, shown in exhibits for exhibit in shown])


class DayChecks:
    """The checks of one unit, one attribute a task."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __dir__(self) -> list[str]:
        return [task.name for task in all_tasks() if task.unit == self._unit]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        task = find_task(name)

        def check(*answers: Any) -> CheckResult | NotWhileGrading:
            if is_grading():
                return NotWhileGrading()
            result = run_check(task, answers)
            from autograder.course.progress import record_check

            workspace = record_check(task, result.outcome.status)
            if workspace is not None and result.passed and task.export:
                result.note = _exported(task, workspace)
            return result

        check.__doc__ = f"Check {task.title!r} on its visible cases. Takes {', '.join(task.provides)}."
        return check


def _exported(task: Task, workspace: Path) -> str:
    """Save the answer to the learner's package; a line that says what became of it."""
    from IPython import get_ipython

    from autograder.course.own_package import ExportError, export_answer

    shell = get_ipython()
    if shell is None:
        return ""  # a check in a program: there are no cells to read
    try:
        return export_answer(task, shell.user_ns["In"], workspace)
    except ExportError as error:
        return str(error)


def __getattr__(name: str) -> DayChecks:
    if name in UNITS:
        return DayChecks(name)
    raise AttributeError(f"check has no unit {name!r}; units: {', '.join(UNITS)}")
