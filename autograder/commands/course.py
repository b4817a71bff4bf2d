"""The subcommands `fxopt course …`, about the rules of a course. Imports no torch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from autograder.commands.refusal import refuse
from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.tables import Table, print_tables

if TYPE_CHECKING:
    from autograder.course.rules import Rules, Terms

course_app = typer.Typer(no_args_is_help=True, help="The rules of your course: deadlines, lateness, attempts.")


def register(app: typer.Typer) -> None:
    """Add these subcommands to the `fxopt` command."""
    app.add_typer(course_app, name="course")


@course_app.callback()
def _root() -> None:
    """The rules of your course: deadlines, lateness, attempts."""


@course_app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Read `course.toml` and print what holds for whom, or every mistake in it with its line."""
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import NAME, RulesError, read_rules
    from autograder.records.intake import handed_in

    try:
        course = find_course()
        rules = read_rules(course)
    except (NoCourseError, RulesError) as error:
        raise refuse(error) from None
    units = sorted(folder.name for folder in course.curriculum.iterdir() if any(folder.glob("ex_*.ipynb")))
    if as_json:
        print(json.dumps(_document(rules, units)))
        return
    if not (course.root / NAME).is_file():
        Console(soft_wrap=True).print(
            f"There is no {NAME} in {escape(str(course.root))}: no deadlines, no limits, and the best attempt counts."
        )
    print_tables(_tables(rules, units, {student for student, _ in handed_in(course)}))


def _tables(rules: Rules, units: list[str], known: set[str]) -> list[Table]:
    words = ("deadline", "when late", "attempts a day", "counts")
    rows = [(unit, *_in_words(rules.terms.get(unit, rules.other))) for unit in units]
    tables = [Table("What holds for everybody", ("assignment", *words), rows, words=words)]
    if rules.extensions:
        headings = ("student", "assignment", "deadline", "later by")
        extended, notes = [], []
        for student in dict.fromkeys(extension.student for extension in rules.extensions):
            for unit in units:
                terms = rules.for_student(student, unit)
                if terms.deadline is not None and terms.extended:
                    later = f"{terms.extended.total_seconds() / 86400:.3g} days"
                    extended.append((student, unit, terms.local(terms.deadline), later))
            if known and student not in known:
                hint = did_you_mean(student, known)
                notes.append(f"Note: nobody called {student} has handed anything in.{hint}")
        tables.append(Table("Extensions", headings, extended, tuple(notes), words=headings))
    return tables


def _in_words(terms: Terms) -> tuple[str, str, str, str]:
    late = "not taken"
    if terms.deadline is None:
        late = "never late"
    elif terms.late_days:
        late = f"{terms.penalty_a_day:g} % a day, up to {terms.late_days} day{'s' * (terms.late_days > 1)}"
    return (
        "none" if terms.deadline is None else terms.local(terms.deadline),
        late,
        "any number" if terms.attempts_a_day is None else str(terms.attempts_a_day),
        f"the {terms.counts} attempt",
    )


def _document(rules: Rules, units: list[str]) -> dict[str, Any]:
    def shown(terms: Terms) -> dict[str, Any]:
        return {
            "deadline": None if terms.deadline is None else terms.deadline.isoformat(),
            # Without a deadline nothing is late: no number of days says that.
            "late_days": None if terms.deadline is None else terms.late_days,
            "penalty_a_day": terms.penalty_a_day,
            "attempts_a_day": terms.attempts_a_day,
            "counts": terms.counts,
        }

    extended: dict[str, dict[str, str]] = {}
    for extension in rules.extensions:
        for unit in units:
            terms = rules.for_student(extension.student, unit)
            if terms.deadline is not None and terms.extended:
                extended.setdefault(extension.student, {})[unit] = terms.deadline.isoformat()
    return {
        "assignments": {unit: shown(rules.terms.get(unit, rules.other)) for unit in units},
        "extensions": extended,
    }
