"""The dashboard's page: HTML from a snapshot; everything that anybody wrote is escaped. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from autograder.classroom.dashboard import charts
from autograder.classroom.dashboard.data import RESULTS, Matrix, Snapshot
from autograder.course.tracks import unit_title
from autograder.exchange.markup import with_code

FOLDER = Path(__file__).parent

NAMES_SHOWN = 12
"""Most names of students in one line."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The content security policy: the page's own script and style sheet, and nothing else, from nowhere else."""


def in_words(time: timedelta) -> str:
    """A time for people: `40 seconds`, `4 minutes`, `2 hours 10 minutes`."""
    seconds = max(1, round(time.total_seconds()))
    if seconds < 90:
        return f"{seconds} second{'s' * (seconds != 1)}"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} minutes"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} hour{'s' * (hours > 1)}" + (f" {minutes} minutes" if minutes else "")


def _matrix(found: Matrix, title: str, good: str, bad: str) -> Markup:
    if found.problem:
        return Markup('<p class="who">{}</p>').format(Markup(with_code(found.problem)))
    head = Markup("").join(Markup('<th scope="col" class="n">{}</th>').format(name) for name in found.headings)
    rows = []
    for task, cells, well in found.rows:
        sort, text = ("good", f"✓ {good}") if well else ("off", f"✗ {bad}")
        said = Markup('<td class="{}">{}</td>').format(sort, text)
        columns = Markup("").join(Markup('<td class="n">{}</td>').format(text) for text in cells)
        rows.append(Markup('<tr><th scope="row">{}</th>{}{}</tr>').format(task, columns, said))
    off = sum(not well for *_, well in found.rows)
    told = f"{title}: {len(found.rows)} tasks, {f'{off} with something off' if off else 'nothing off'}"
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><caption>{}</caption><thead><tr>'
        '<th scope="col">task</th>{}<th scope="col">verdict</th></tr></thead><tbody>{}</tbody></table></div>'
    ).format(title, told, head, Markup("").join(rows))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals |= {
        "charts": charts,
        "results": RESULTS,
        "in_words": in_words,
        "matrix": _matrix,
        "day_title": unit_title,
        "coded": lambda text: Markup(with_code(text)),
    }
    return environment


_ENVIRONMENT = _environment()


def render(snapshot: Snapshot, template: str = "page.html.j2") -> str:
    """The page, or one of its parts, as HTML."""

    def names(students: Iterable[str]) -> str:
        known = [key if snapshot.people.get(key, key) == key else f"{snapshot.people[key]} ({key})" for key in students]
        more = f" and {len(known) - NAMES_SHOWN} more" if len(known) > NAMES_SHOWN else ""
        return "; ".join(known[:NAMES_SHOWN]) + more

    return _ENVIRONMENT.get_template(template).render(snapshot=snapshot, names=names)


def render_grading(snapshot: Snapshot) -> str:
    """The part of the page that changes while grading runs, with the version of the rest."""
    inner = Markup(render(snapshot, "grading.html.j2"))
    return Markup('<div data-version="{}">{}</div>').format(snapshot.version, inner)
