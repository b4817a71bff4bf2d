"""The glossary: one page in `curriculum/`, made from the `glossary.toml` beside the sources of each unit."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from autograder.course.course import Course
from autograder.exchange.markup import heading_anchor

PAGE = "Glossary.md"
"""Name of the page in `curriculum/`; lessons link to `../Glossary.md#ANCHOR`."""

HEAD = """\
# Glossary

Each term once, in a sentence or two, with the lesson that shows it.
"""


class GlossaryError(ValueError):
    """A glossary file is malformed; the message names the file, the term and what to do."""


@dataclass(frozen=True)
class Term:
    """One entry.

    Attributes:
        term: as it is written in a sentence.
        means: what it means.
        unit: folder of the unit that defines it.
        lesson: notebook in that folder that shows it, without suffix.
    """

    term: str
    means: str
    unit: str
    lesson: str

    @property
    def anchor(self) -> str:
        """The link's target on the page. Lower case, which GitHub and JupyterLab take for the same heading."""
        return heading_anchor(self.term)


def read_terms(course: Course) -> list[Term]:
    """Every term of the course in alphabetical order.

    Raises:
        GlossaryError: a file is no TOML, an entry lacks something, names a lesson that is not there, or is a second
            definition of a term.
    """
    terms: dict[str, Term] = {}
    for path in sorted(course.solutions.rglob("glossary.toml")):
        where = f"{path.parent.name}/{path.name}"
        try:
            entries = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as error:
            raise GlossaryError(f"{where}: {error}") from error
        for name, entry in entries.items():
            if not isinstance(entry, dict) or set(entry) != {"means", "lesson"}:
                raise GlossaryError(f"{where}: {name!r} must have `means` and `lesson` and nothing else")
            if not (path.parent / f"{entry['lesson']}.py").is_file():
                raise GlossaryError(f"{where}: {name!r} names the lesson {entry['lesson']!r}, which is not there")
            term = Term(name, " ".join(entry["means"].split()), path.parent.name, entry["lesson"])
            if term.anchor in terms:
                raise GlossaryError(f"{where}: {name!r} is defined in {terms[term.anchor].unit} already; link to it")
            terms[term.anchor] = term
    return [terms[anchor] for anchor in sorted(terms)]


def glossary_page(course: Course) -> str:
    """The page as Markdown; empty for a course that defines no terms.

    Raises:
        GlossaryError: see `read_terms`.
    """
    terms = read_terms(course)
    parts = [HEAD] if terms else []
    for term in terms:
        heading = re.sub(r"[^\w\- ]", "", term.term.lower())
        link = f"[{term.lesson}]({term.unit}/{term.lesson}.ipynb)"
        spelt = "" if heading == term.term else f"**{term.term}**: "
        parts.append(f"## {heading}\n\n{spelt}{term.means}\n\nShown in {link}.\n")
    return "\n".join(parts)
