"""A case for every sentence: which case and which wrong answer stand behind each rule of a task's text.

`sentences.toml` beside a task ties the three together:

    [[sentence]]
    quote = "The graph must pass `graph.lint()`"
    cases = ["3 to 4 to 2"]
    wrong = ["wrong_order_of_nodes"]

    [[sentence]]
    quote = "Each node has users"
    no_rule = "It explains what a user is, and asks nothing of the answer."

A quote is a piece of the text, however its lines are broken. Each of the words in `RULES` must stand in a quote; hints,
which only help, are left out. The gate sees to it that each wrong answer fails in one of the cases. Imports no torch.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder.course.task import Task

FILE = "sentences.toml"

RULES = re.compile(r"\b(must|also|each|every|without|stays?|nothing|never)\b", re.IGNORECASE)
"""Words by which a text asks for something."""

SHORTEST_REASON = 20
"""What `no_rule` says has at least so many characters."""


class SentencesError(ValueError):
    """A task's `sentences.toml` cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Sentence:
    """A rule of a task's text, and what stands behind it.

    Attributes:
        quote: the piece of the text, on one line.
        cases: names of the cases that try it.
        wrong: names of the wrong answers (files of `wrong/` without suffix) that break it.
        no_rule: why it asks for nothing; then there are neither cases nor wrong answers.
    """

    quote: str
    cases: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    no_rule: str = ""


def rules_text(notebook: NotebookNode, task: Task) -> str:
    """The task's text on one line, without headings and hints.

    Raises:
        LookupError: the notebook has no text of this task.
    """
    source = next((cell.source for cell in notebook.cells if cell["id"] == f"{task.name}-task"), None)
    if source is None:
        raise LookupError(f"{task.notebook} has no text cell {task.name}-task")
    source = re.sub(r"<details>.*?</details>", " ", source, flags=re.DOTALL)
    source = re.sub(r"^#.*$", " ", source, flags=re.MULTILINE)
    return one_line(source)


def one_line(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def read_sentences(task: Task) -> list[Sentence]:
    """The task's keys; none where it has no such file.

    Raises:
        SentencesError: the file is no TOML, or a key lacks something.
    """
    path = task.folder / FILE
    if not path.exists():
        return []
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SentencesError(f"{path} is no TOML: {error}") from None
    entries = content.pop("sentence", [])
    if content or not isinstance(entries, list):
        raise SentencesError(f"{path}: only `[[sentence]]` may stand there, not {', '.join(content) or 'that'}")
    return [_sentence(path, entry) for entry in entries]


def _sentence(path: Path, entry: Any) -> Sentence:
    match entry:
        case {"quote": str(quote), "no_rule": str(why), **others} if not others:
            if len(why) < SHORTEST_REASON:
                raise SentencesError(f"{path}: {why!r} does not say why {quote!r} is no rule")
            return Sentence(one_line(quote), no_rule=why)
        case {"quote": str(quote), "cases": [str(), *_] as cases, "wrong": [str(), *_] as wrong, **others} if (
            not others
        ):
            if all(isinstance(name, str) for name in [*cases, *wrong]):
                return Sentence(one_line(quote), tuple(cases), tuple(wrong))
    raise SentencesError(
        f"{path}: a [[sentence]] has a `quote`, and either `cases` and `wrong`, one name of each at least, or "
        f"`no_rule`; not {entry!r}"
    )


def off(task: Task, text: str, sentences: Iterable[Sentence], cases: Iterable[str]) -> list[str]:
    """One line for each key that names what is not there.

    Args:
        task: the task.
        text: its text (see `rules_text`).
        sentences: its keys.
        cases: names of all its cases.
    """
    known_cases, known_wrong = set(cases), {path.stem for path in (task.folder / "wrong").glob("*.py")}
    lines = []
    for sentence in sentences:
        if sentence.quote not in text:
            lines.append(f"{task.name}: the text does not say {sentence.quote!r}")
        lines += [f"{task.name}: no case is named {name!r}" for name in sentence.cases if name not in known_cases]
        lines += [f"{task.name}: there is no wrong/{name}.py" for name in sentence.wrong if name not in known_wrong]
    return lines


def uncovered(text: str, sentences: Iterable[Sentence]) -> list[str]:
    """Each rule's word that stands in no quote, with what stands around it."""
    covered: set[int] = set()
    for sentence in sentences:
        for found in re.finditer(re.escape(sentence.quote), text):
            covered |= set(range(*found.span()))
    missing = []
    for found in RULES.finditer(text):
        if not set(range(*found.span())) <= covered:
            start, end = max(0, found.start() - 60), found.end() + 60
            missing.append(f"…{text[start : found.start()]}*{found[0]}*{text[found.end() : end]}…")
    return missing


def untied(sentences: Iterable[Sentence], failed: dict[str, tuple[str, ...]]) -> list[str]:
    """One line for each wrong answer that fails in none of the cases that its sentence names.

    Args:
        sentences: a task's keys.
        failed: for each wrong answer the names of the cases in which it failed.
    """
    return [
        f"{name} breaks {sentence.quote!r}, but fails in {list(failed.get(name, ()))}, not in {list(sentence.cases)}"
        for sentence in sentences
        for name in sentence.wrong
        if not set(failed.get(name, ())) & set(sentence.cases)
    ]
