"""Whether the student and the assignment that a command was asked for are there. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fxopt_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from autograder.course.course import Course

MOST_LISTED = 12
"""How many names a message lists where none is near."""


class UnknownNameError(LookupError):
    """There is no such student or assignment; the message is one line that offers near names."""


def check_asked(course: Course, who: str | None, unit: str | None = None) -> str:
    """See that a student and an assignment are known; why there is nothing to do all the same, or `""`.

    Args:
        course: the course.
        who: a student, or `None` for all.
        unit: an assignment (folder name), or `None` for all.

    Raises:
        UnknownNameError: there is no such assignment, or others have handed in but nobody of this name.
    """
    from autograder.records.intake import handed_in

    folders = list(handed_in(course))
    if unit is not None:
        released = {folder.name for folder in course.curriculum.iterdir() if any(folder.glob("ex_*.ipynb"))}
        known = released | {name for _, name in folders}
        _look_up("--unit", unit, "there is no such assignment", "The assignments are", known)
    if not folders:
        return "Nothing was handed in yet."
    if who is not None:
        students = {student for student, _ in folders}
        _look_up("--student", who, "nobody of this name has handed anything in", "So far there is work by", students)
    if any(who in (None, student) and unit in (None, name) for student, name in folders):
        return ""
    return f"Nothing was handed in yet for {unit}{f' by {who}' if who is not None else ''}."


def _look_up(option: str, name: str, problem: str, these: str, known: set[str]) -> None:
    if name not in known:
        there = sorted(known)
        listed = f" {these} {', '.join(there[:MOST_LISTED])}{', …' if len(there) > MOST_LISTED else ''}."
        raise UnknownNameError(f"{option} {name}: {problem}.{did_you_mean(name, there) or listed}")
