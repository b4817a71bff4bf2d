"""What a judge finds, and what a graded task comes to. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["passed", "wrong", "not written", "error", "time limit", "memory limit", "process limit", "crashed"]

DETAIL_LIMIT = 400
"""Most characters of the detail of a finding that are shown; exceptions may quote much code."""

NOT_WRITTEN = "Not yet written: the cell still raises NotImplementedError."


def one_line(text: object, limit: int) -> str:
    """Text of a learner as one line of at most `limit` characters, without what a terminal would obey."""
    plain = "".join(character if character.isprintable() else " " for character in str(text)[: 4 * limit])
    return " ".join(plain.split())[:limit]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an answer.

    Attributes:
        misconception: key into the judge's `MISCONCEPTIONS`, or `""` for a failure of no particular kind.
        message: what the learner reads; tells nothing about hidden cases.
        detail: figures of this very case, shown only when the case is a visible one.
    """

    misconception: str
    message: str
    detail: str = ""


@dataclass(frozen=True)
class CaseVerdict:
    """The judge's findings on one case; none means that the case passed.

    Attributes:
        case: its name.
        hidden: whether it comes from the secret seed.
        findings: what is wrong.
        figures: what the judge measured, as JSON values; of the capstone only.
    """

    case: str
    hidden: bool
    findings: tuple[Finding, ...]
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.findings


@dataclass
class TaskOutcome:
    """What one task came to.

    Attributes:
        task: the task's name.
        title: the task's title.
        status: see `Status`.
        messages: what the learner reads, the most important first.
        misconceptions: names of the misconceptions that were recognised, in the order of `messages`.
        cases: verdicts in the order of the cases; hidden ones are never shown one by one.
        points: points reached.
        max_points: points of the task according to the notebook.
        seconds: wall time that the learner's side took.
    """

    task: str
    title: str
    status: Status
    messages: list[str] = field(default_factory=list)
    misconceptions: list[str] = field(default_factory=list)
    cases: list[CaseVerdict] = field(default_factory=list)
    points: float = 0.0
    max_points: float = 0.0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything but the hidden cases, as JSON values."""
        values = asdict(self)
        del values["cases"]
        return {"cell": self.task, **values}


def outcome_from_verdicts(task: str, title: str, verdicts: Iterable[CaseVerdict]) -> TaskOutcome:
    """Combine the verdicts on all cases: a task is passed when every case is."""
    cases = list(verdicts)
    messages: list[str] = []
    misconceptions: list[str] = []
    for verdict in cases:
        for finding in verdict.findings:
            text = finding.message
            if verdict.hidden:
                text += " (found on a hidden case)"
            elif finding.detail:
                text += f" {one_line(finding.detail, DETAIL_LIMIT)}"
            if finding.misconception not in misconceptions or not finding.misconception:
                messages.append(text)
                misconceptions.append(finding.misconception)
    if not cases:
        raise ValueError(f"task {task}: no case was judged, so nothing can be said of the answer")
    return TaskOutcome(task, title, "wrong" if messages else "passed", messages, misconceptions, cases)


def write_your_own(module: str) -> str:
    """The sentence for a learner who imports `module`."""
    return f"`{module}` already contains the answer to this task: write your own instead of importing it."
