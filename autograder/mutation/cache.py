"""Verdicts that are known already, in a file that several runs may use at once. Imports no torch."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from autograder.authoring.contents import digest
from autograder.course.course import Course
from autograder.mutation.trials import Verdict

VARIABLE = "FXOPT_MUTATION_CACHE"
"""Environment variable that names the file; without it, it lies among the course's records."""

PATIENCE_SECONDS = 60.0
"""How long to wait while another run writes."""


class VerdictCache:
    """Verdicts by all that they depend on. A context manager."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; it is made when it is not there."""
        self.path = path

    @classmethod
    def of(cls, course: Course) -> Self:
        """The cache of a course."""
        return cls(Path(os.environ.get(VARIABLE) or course.records / "mutation.db"))

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(self.path, timeout=PATIENCE_SECONDS, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdict TEXT NOT NULL)")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @staticmethod
    def key(grading: str, cells: Sequence[dict[str, str]], seeds: Sequence[str]) -> str:
        """The name of a verdict.

        Args:
            grading: what decides how the task is graded (`grading_digest`).
            cells: the cells that are run, the mutant among them.
            seeds: the secrets behind the hidden cases.
        """
        return digest([grading, [[cell["id"], cell["source"]] for cell in cells], list(seeds)])

    def get(self, key: str) -> Verdict | None:
        """A verdict that is known."""
        row = self._connection.execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
        return Verdict(**json.loads(row[0])) if row else None

    def put(self, key: str, verdict: Verdict) -> None:
        """Keep a verdict; a run beside this one that found it first is overwritten with the same."""
        self._connection.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (key, json.dumps(asdict(verdict))))
