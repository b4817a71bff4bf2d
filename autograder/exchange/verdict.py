"""What a judge finds, and what a graded task comes to. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Status = Literal["passed", "wrong", "not written", "error", "time limit", "memory limit", "process limit", "crashed"]

DETAIL_LIMIT = 400
"""Most characters of what an exception says that are shown; it may quote much code."""

FIGURES_LIMIT = 2000
"""Most characters of a judge's figures that are shown. They say what was found and what was wanted, so far more of them
is let through than of an exception; what is longer still is cut."""

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
        question: what was asked, where several mistakes may be behind a wrong answer; see `Deviation`.
        fits: the mistakes that would have given just this answer, each with its message.
        size: how large the case is; of those that deviate, the smallest is told.
    """

    misconception: str
    message: str
    detail: str = ""
    question: str = ""
    fits: tuple[tuple[str, str], ...] = ()
    size: int = 0


@dataclass(frozen=True)
class Deviation:
    """For judges: the answer to a question is not right in one case, and these mistakes would have given just that.

    What the learner reads is decided over all cases: where exactly one mistake fits every case that deviates, and would
    not have shown in a case that is right, it is named. Else no mistake is named, and the smallest case is shown with
    what was expected and what came.

    Attributes:
        question: name of the misconception whose message says what is not right, and names no mistake.
        fits: names of misconceptions.
        figures: what was expected and what came.
        size: how large the case is.
    """

    question: str
    fits: tuple[str, ...]
    figures: str
    size: int = 0


Excluded = Collection[str] | Callable[[Collection[str]], Collection[str] | None]
"""Mistakes, or what finds out which of some mistakes belong here; its `None` says that nobody knows."""


@dataclass(frozen=True)
class Agreement:
    """For judges: the answer to a question is right in one case, where these mistakes would have given another one.

    To find them out may mean to make every mistake there is. So a function may be given instead. It is called only if
    the answer to that question is not right in another case, with the mistakes that would explain that one.
    """

    question: str
    excluded: Excluded


@dataclass(frozen=True)
class CaseVerdict:
    """The judge's findings on one case; none means that the case passed.

    Attributes:
        case: its name.
        hidden: whether it comes from the secret seed.
        findings: what is wrong.
        figures: what the judge measured, as JSON values; of the capstone only.
        excluded: questions that were answered rightly, each with the mistakes that would have shown here.
    """

    case: str
    hidden: bool
    findings: tuple[Finding, ...]
    figures: dict[str, Any] = field(default_factory=dict)
    excluded: tuple[tuple[str, Excluded], ...] = ()

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
    cases = _explained(list(verdicts))
    messages: list[str] = []
    misconceptions: list[str] = []
    for verdict in cases:
        for finding in verdict.findings:
            text = finding.message
            if verdict.hidden:
                text += " (found on a hidden case)"
            elif finding.detail:
                limit = DETAIL_LIMIT if finding.misconception == "raised" else FIGURES_LIMIT
                text += f" {one_line(finding.detail, limit)}"
            if finding.misconception not in misconceptions or not finding.misconception:
                messages.append(text)
                misconceptions.append(finding.misconception)
    if not cases:
        raise ValueError(f"task {task}: no case was judged, so nothing can be said of the answer")
    return TaskOutcome(task, title, "wrong" if messages else "passed", messages, misconceptions, cases)


def _without_brackets(text: str) -> str:
    """A text without the one pair of brackets around all of it, which may be cut off; `(1) and (2)` has none."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[1:-1] if text.startswith("(") and position == len(text) - 1 else text
    return text[1:]


def _explained(cases: Sequence[CaseVerdict]) -> list[CaseVerdict]:
    """The verdicts with each question's deviations told as what explains all of them, if one mistake alone does.

    The case that is told comes first among them: the smallest one, visible cases before hidden ones.
    """
    asked: dict[str, list[Finding]] = {}
    places: dict[int, tuple[bool, int, str]] = {}
    for case in cases:
        for finding in case.findings:
            if finding.question:
                asked.setdefault(finding.question, []).append(finding)
                places[id(finding)] = (case.hidden, finding.size, case.case)
    told: dict[int, tuple[Finding, ...]] = {}
    for question, findings in asked.items():
        messages = dict(pair for finding in findings for pair in finding.fits)
        fitting = set(messages)
        for finding in findings:
            fitting &= {name for name, _ in finding.fits}
        for case in cases:
            for asked_for, excluded in case.excluded:
                if fitting and asked_for == question:
                    names = excluded(sorted(fitting)) if callable(excluded) else excluded
                    fitting = set() if names is None else fitting - set(names)
        smallest = min(findings, key=lambda finding: places[id(finding)])
        figures = _without_brackets(smallest.detail)
        detail = f"(in the case {places[id(smallest)][2]!r}{': ' * bool(figures)}{figures})"
        for finding in findings:
            name = next(iter(fitting)) if len(fitting) == 1 else question
            message = messages[name] if len(fitting) == 1 else finding.message
            told[id(finding)] = (replace(finding, misconception=name, message=message, detail=detail),)
    return [
        replace(case, findings=tuple(new for old in case.findings for new in told.get(id(old), (old,))), excluded=())
        for case in cases
    ]


def write_your_own(module: str) -> str:
    """The sentence for a learner who imports `module`."""
    return f"`{module}` already contains the answer to this task: write your own instead of importing it."
