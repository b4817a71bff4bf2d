"""Mutants that are right answers, too: `equivalent.toml` beside each task says which, and why. Imports no torch.

    [[equivalent]]
    reason = "No graph without an output node reaches this line."
    mutants = [
        { answer = "reference", before = 'raise ValueError("…")', after = "pass" },
    ]

`before` and `after` are as `fxopt mutate` prints them; of several mutants with the same lines `occurrence` names one.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.task import Task
from autograder.mutation.mutants import Mutant

Key = tuple[str, str, str, int]
"""Answer, lines before, lines after, and which one of several."""

FILE = "equivalent.toml"

SHORTEST_REASON = 20
"""A reason has at least so many characters: "the same" is none."""


class EquivalentsError(ValueError):
    """A task's `equivalent.toml` cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Equivalents:
    """The mutants of one task that are right answers.

    Attributes:
        path: of the file.
        reasons: why, by the key of each mutant (`Mutant.key`).
    """

    path: Path
    reasons: dict[Key, str]

    def unmatched(self, mutants: Iterable[Mutant]) -> list[str]:
        """One line for each entry that names no mutant (any more)."""
        known = {mutant.key for mutant in mutants}
        return [f"{self.path}: no such mutant: {_told(key)}" for key in self.reasons if key not in known]


def _told(key: Key) -> str:
    answer, before, after, occurrence = key
    return f"answer = {answer!r}, before = {before!r}, after = {after!r}, occurrence = {occurrence}"


def read_equivalents(task: Task) -> Equivalents:
    """A task's equivalent mutants; none where it has no such file.

    Raises:
        EquivalentsError: the file is no TOML, has other keys than those above, an entry without a reason, or one twice.
    """
    path = task.folder / FILE
    if not path.exists():
        return Equivalents(path, {})
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EquivalentsError(f"{path} is no TOML: {error}") from None
    entries = content.pop("equivalent", [])
    if content or not isinstance(entries, list):
        raise EquivalentsError(f"{path}: only `[[equivalent]]` may stand there, not {', '.join(content) or 'that'}")
    keys: list[tuple[Key, str]] = []
    for entry in entries:
        keys += _entry(path, entry)
    for key, count in Counter(key for key, _ in keys).items():
        if count > 1:
            raise EquivalentsError(f"{path}: named {count} times: {_told(key)}")
    return Equivalents(path, dict(keys))


def _entry(path: Path, entry: Any) -> list[tuple[Key, str]]:
    match entry:
        case {"reason": str(reason), "mutants": list(mutants), **others} if not others and mutants:
            if len(reason.strip()) < SHORTEST_REASON:
                raise EquivalentsError(
                    f"{path}: {reason!r} is no reason; say why no case could ever tell the difference"
                )
            return [(_key(path, mutant), reason) for mutant in mutants]
    raise EquivalentsError(f"{path}: each [[equivalent]] has a `reason` and a list of `mutants`, not {entry!r}")


def _key(path: Path, mutant: Any) -> Key:
    if isinstance(mutant, dict):
        match {"occurrence": 1} | mutant:
            case {
                "answer": str(answer),
                "before": str(before),
                "after": str(after),
                "occurrence": int(number),
                **others,
            }:
                if not others:
                    return answer, before, after, number
    raise EquivalentsError(f"{path}: a mutant is answer, before, after and perhaps occurrence, not {mutant!r}")
