"""Reading `course.toml`: every mistake at once, each with its line and what was expected. Imports no torch.

```toml
timezone = "Europe/Berlin"   # of times without an offset, and of "a day"
late_days = 3                # for so many days after the deadline work is still graded
penalty_a_day = 10           # percent of the points that each of them costs
attempts_a_day = 5           # further attempts of a day are kept, and not graded
counts = "best"              # or "last": which attempt counts

[assignments.day1_compile_stack]
deadline = 2026-11-27T18:00:00
late_days = 0                # each of the settings above can also be set for one assignment

[[extensions]]
student = "ada"
days = 2                     # for all assignments
[[extensions]]
student = "grace"
assignment = "day1_compile_stack"
until = 2026-12-01T12:00:00+01:00
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from autograder.course.course import Course
from autograder.course.rules import Counts, Extension, Rules, Terms
from autograder.course.toml_lines import TomlLines
from fxopt_core.suggestions import did_you_mean

NAME = "course.toml"

_Days = Annotated[int, msgspec.Meta(ge=0, le=366)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
_Attempts = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_MoreDays = Annotated[float, msgspec.Meta(gt=0, le=366)]

_Path = tuple[str | int, ...]

SETTINGS: dict[str, tuple[Any, str]] = {
    "late_days": (_Days, "a whole number of days from 0 to 366, such as 3"),
    "penalty_a_day": (_Percent, "a percentage from 0 to 100, such as 10"),
    "attempts_a_day": (_Attempts, "a whole number from 1 to 1000, such as 5 (leave the line out for no limit)"),
    "counts": (Literal["best", "last"], '"best" or "last"'),
}
"""Keys that hold for all assignments or for one: of which type, and what is expected in words."""

TIME = "a date and a time, such as 2026-11-27T18:00:00 (with timezone set) or 2026-11-27T18:00:00+01:00"

ASSIGNMENT_KEYS = ("deadline", *SETTINGS)
EXTENSION_KEYS = ("student", "assignment", "days", "until")
TOP_KEYS = ("timezone", *SETTINGS, "assignments", "extensions")


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong with the file.

    Attributes:
        line: on which line, from 1.
        key: the key, such as `assignments.day1_compile_stack.deadline`; empty when the file is no TOML.
        message: what is wrong and what was expected.
    """

    line: int
    key: str
    message: str


class RulesError(ValueError):
    """`course.toml` cannot be used; the message has one line for each mistake.

    Attributes:
        mistakes: all of them, from the top.
    """

    def __init__(self, file: str, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        lines = (f"{file}:{m.line}: {m.key}{': ' if m.key else ''}{m.message}" for m in self.mistakes)
        super().__init__("\n".join(lines))


def read_rules(course: Course) -> Rules:
    """The rules of a course; those without deadlines and limits when there is no `course.toml`.

    Raises:
        RulesError: there are mistakes in it; all of them are named.
    """
    path = course.root / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Rules()
    except OSError as error:
        raise RulesError(str(path), [Mistake(1, "", f"this file cannot be read: {error.strerror}")]) from error
    known = sorted(folder.name for folder in course.curriculum.iterdir() if any(folder.glob("ex_*.ipynb")))
    return parse_rules(content, known, str(path))


def parse_rules(content: bytes, assignments: Sequence[str], file: str = NAME) -> Rules:
    """The rules in the bytes of a `course.toml`.

    Args:
        content: the file.
        assignments: folder names of the assignments that there are.
        file: its name, for messages.

    Raises:
        RulesError: there are mistakes in it; all of them are named.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise RulesError(file, [Mistake(line, "", "this is not UTF-8 text; save the file as UTF-8")]) from error
    text = text.replace("\r\n", "\n")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesError(file, [Mistake(_line_in(str(error), text), "", f"not TOML: {error}")]) from error
    except RecursionError as error:
        raise RulesError(file, [Mistake(1, "", "tables or lists are nested too deeply here")]) from error
    reading = _Reading(text, assignments)
    rules = reading.rules(document)
    if reading.mistakes:
        raise RulesError(file, sorted(reading.mistakes, key=lambda mistake: mistake.line))
    return rules


def _line_in(message: str, text: str) -> int:
    """The line that a message of tomllib names: `… (at line 3, column 5)` or `(at end of document)`."""
    words = message.replace(",", " ").split()
    return int(words[words.index("line") + 1]) if "line" in words else text.count("\n") + 1


class _Reading:
    """Reads one document; what is wrong with it is collected in `mistakes`."""

    def __init__(self, text: str, assignments: Sequence[str]) -> None:
        self.mistakes: list[Mistake] = []
        self._lines = TomlLines(text)
        self._assignments = assignments
        self._zone: tzinfo | None = None
        self._zone_is_named = False

    def rules(self, document: dict[str, Any]) -> Rules:
        """The rules, as far as they can be read."""
        self._unknown_keys(document, (), TOP_KEYS)
        self._zone, self._zone_is_named = self._timezone(document), "timezone" in document
        general = self._terms(document, (), Terms(timezone=self._zone or UTC))
        terms = {}
        tables = self._table(document, ("assignments",))
        for name, table in tables.items():
            path = ("assignments", name)
            if name not in self._assignments:
                self._wrong(path, f"there is no assignment {name!r}.{self._nearest(name, self._assignments)}")
            table = self._table(tables, path)
            self._unknown_keys(table, path, ASSIGNMENT_KEYS)
            terms[name] = replace(self._terms(table, path, general), deadline=self._time(table, (*path, "deadline")))
        return Rules(terms, tuple(self._extensions(document, terms)), general)

    def _wrong(self, path: _Path, message: str) -> None:
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        self.mistakes.append(Mistake(self._lines.line_of(path), key, message))

    @staticmethod
    def _nearest(name: str, known: Sequence[str]) -> str:
        return did_you_mean(name, known) or f" There are {', '.join(known)}."

    def _unknown_keys(self, table: Mapping[str, Any], path: _Path, known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                self._wrong((*path, key), f"there is no such key here.{self._nearest(key, known)}")

    def _table(self, outer: Mapping[str, Any], path: _Path) -> dict[str, Any]:
        value = outer.get(str(path[-1]), {})
        if not isinstance(value, dict):
            self._wrong(path, f"expected a table, such as [{'.'.join(map(str, path))}], not {_shown(value)}")
            return {}
        return value

    def _timezone(self, document: Mapping[str, Any]) -> tzinfo | None:
        if "timezone" not in document:
            return None
        name, known = document["timezone"], sorted(available_timezones())
        if not isinstance(name, str) or name not in known:
            near = did_you_mean(name, known) if known else " This machine knows none: install the package tzdata."
            self._wrong(("timezone",), f'expected a time zone, such as "Europe/Berlin", not {_shown(name)}.{near}')
            return None
        return ZoneInfo(name)

    def _terms(self, table: Mapping[str, Any], path: _Path, general: Terms) -> Terms:
        found = {}
        for key, (kind, expected) in SETTINGS.items():
            if key not in table:
                continue
            try:
                found[key] = msgspec.convert(table[key], kind)
            except msgspec.ValidationError:
                self._wrong((*path, key), f"expected {expected}, not {_shown(table[key])}")
        counts: Counts = found.get("counts", general.counts)
        return replace(general, **(found | {"counts": counts}))

    def _time(self, table: Mapping[str, Any], path: _Path) -> datetime | None:
        """A time with its zone; a time without offset is that of the course's zone, if it is one and only one."""
        key = str(path[-1])
        if key not in table:
            return None
        value = table[key]
        if not isinstance(value, datetime):
            self._wrong(path, f"expected {TIME}, not {_shown(value)}")
            return None
        if value.tzinfo is not None:
            return value.astimezone(UTC)
        if self._zone is None and self._zone_is_named:
            return None  # that it is no time zone is said where it stands
        if self._zone is None:
            self._wrong(
                path,
                f"{value.isoformat()} does not say where: set timezone at the top of the file, or write the offset, "
                f"as in {value.isoformat()}+01:00",
            )
            return None
        early, late = (value.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
        if early.utcoffset() != late.utcoffset():
            back = early.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) == value
            what = "is there twice" if back else "does not exist"
            self._wrong(
                path,
                f"{value.isoformat()} {what} in {self._zone}, where the clock is changed: write the offset, as in "
                f"{early.isoformat()}",
            )
            return None
        return early.astimezone(UTC)

    def _extensions(self, document: Mapping[str, Any], terms: Mapping[str, Terms]) -> Iterator[Extension]:
        listed = document.get("extensions", [])
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            self._wrong(("extensions",), f"expected tables under [[extensions]], not {_shown(listed)}")
            return
        seen: dict[tuple[str, str | None], int] = {}
        for number, entry in enumerate(listed):
            path: _Path = ("extensions", number)
            before = len(self.mistakes)
            self._unknown_keys(entry, path, EXTENSION_KEYS)
            student, assignment, days = entry.get("student"), entry.get("assignment"), entry.get("days")
            if not isinstance(student, str) or not student:
                where = (*path, "student") if "student" in entry else path
                self._wrong(where, 'expected a student\'s name, such as student = "ada"')
            if assignment is not None and assignment not in self._assignments:
                near = self._nearest(str(assignment), self._assignments)
                self._wrong((*path, "assignment"), f"there is no assignment {_shown(assignment)}.{near}")
            elif assignment is not None and (assignment not in terms or terms[assignment].deadline is None):
                self._wrong((*path, "assignment"), f"{assignment} has no deadline that could be later")
            if ("days" in entry) == ("until" in entry):
                self._wrong(path, "expected either days = 2 or until = (a time), and not both")
            elif days is not None:
                try:
                    days = msgspec.convert(days, _MoreDays)
                except msgspec.ValidationError:
                    self._wrong((*path, "days"), f"expected a number of days above 0, not {_shown(days)}")
            until = self._time(entry, (*path, "until"))
            if until is not None and assignment is None:
                self._wrong((*path, "until"), "until is for one assignment: name it, or say days for all of them")
            deadline = terms[assignment].deadline if assignment in terms else None
            if until is not None and deadline is not None and until <= deadline:
                self._wrong((*path, "until"), "this is not later than the deadline that everybody has")
            if len(self.mistakes) > before or not isinstance(student, str):
                continue
            if (student, assignment) in seen:
                first = self._lines.line_of(("extensions", seen[student, assignment]))
                self._wrong(path, f"{student} has an extension for this already, on line {first}: keep one of the two")
                continue
            seen[student, assignment] = number
            yield Extension(student, assignment, days, until)


def _shown(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
