"""One result: a model type, a method, and what came of it. Kept as a line of JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fxopt_workbench.huggingface.coverage.checks import OTHER_DTYPES

EAGER = "eager"
"""The row that says whether a type can be built and run at all. The other methods are tried only if it can."""

REFUSED = "refused"

VERDICTS = {
    "general": "right on every input that the model itself takes, of other batches, lengths, images and paddings",
    "specialised": "right on new values; other sizes or another padding it refuses, or the model itself takes no other",
    "partitioned": "as general or specialised, but in several graphs with Python between them",
    "wrong": "somewhere it gives another answer than the model, and says nothing",
    "failed": "not captured, or the captured module does not even take new values of the same shapes",
}

NOT_RUN = {
    "package": "the model needs a package that is not installed",
    "too large": "even shrunk it has too many parameters",
    "no call": "the class cannot be called (no forward), or nothing is known to give for one of its arguments",
    "cannot tell": "it runs, but its answers change from call to call or hardly depend on its inputs",
    "limit": "it ran out of time or memory, or its process died",
    "raises": "the model's own code raises at every small configuration and every call that was tried",
}
"""Why a type does not run eagerly: the causes of the failed rows of `eager`."""

RESULTS_FILE = "coverage.jsonl"


@dataclass(frozen=True)
class Row:
    """What came of one method on one model type.

    Attributes:
        type: of transformers, such as `bert`.
        method: one of `METHODS`, `package.module:function`, or `eager`.
        outcome: `captured` (for `eager`: it ran), or what ended it: `error`, `timeout`, `memory` or `crash`.
        reason: the kind of the error and its first line, where there was one.
        graphs: how many graphs.
        nodes: how many nodes they have together.
        seconds: that the capture took (for `eager`: building and running).
        errors: check → largest error against eager in units of the output, `infinite` (another shape, an integer, a
            NaN), or `refused`; checks that the model itself does not pass are absent.
        tolerated: check → whether that error is within the tolerance.
        verdict: one of `VERDICTS`; for `eager`, `runs` or `failed`.
        cause: one of `NOT_RUN` for a failed row of `eager`, with the name of the package after a colon.
        code: what the row was measured with (see `code_version`); a row of other code is measured again.
        details: what else is known: class, parameters and inputs for `eager`; adaptations for a method.
    """

    type: str
    method: str
    outcome: str
    reason: str = ""
    graphs: int = 0
    nodes: int = 0
    seconds: float = 0.0
    errors: dict[str, float | str] = field(default_factory=dict)
    tolerated: dict[str, bool] = field(default_factory=dict)
    verdict: str = "failed"
    cause: str = ""
    code: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Type and method: there is one row of each."""
        return self.type, self.method


def judge(row: Row) -> Row:
    """The row with the verdict that follows from its errors. A check that the model itself fails proves nothing."""
    if row.outcome != "captured":
        return replace(row, verdict="failed")
    answered = {check: error for check, error in row.errors.items() if error != REFUSED}
    if not all(row.tolerated.get(check, False) for check in answered):
        return replace(row, verdict="wrong")
    for needed in ("example", "new_values"):
        if row.errors.get(needed) == REFUSED:
            return replace(row, verdict="failed", reason=row.reason or f"the captured module refuses {needed}")
    if row.graphs > 1:
        return replace(row, verdict="partitioned")
    refused = [check for check in row.errors if check not in answered and check not in OTHER_DTYPES]
    everywhere = not refused and "other_sizes" in answered
    return replace(row, verdict="general" if everywhere else "specialised")


class ResultsError(ValueError):
    """A file of results cannot be continued."""


class Results:
    """The rows in a file, one JSON object a line, written as they come.

    The first line says what was measured with. A line that a kill has cut off is dropped.

    Args:
        folder: where the file is or will be; made if it is not there.
        versions: of the packages that results depend on.

    Raises:
        ResultsError: the file was measured with other versions, or is something else.
    """

    def __init__(self, folder: Path, versions: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / RESULTS_FILE
        self.rows: dict[tuple[str, str], Row] = {}
        text = self.path.read_text() if self.path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            os.truncate(self.path, len(whole.encode()))
        if not whole:
            self._write({"versions": versions})
            return
        try:
            header, *lines = map(json.loads, whole.splitlines())
            rows = [Row(**line) for line in lines]
            measured = header["versions"]
        except (ValueError, TypeError, KeyError) as error:
            raise ResultsError(
                f"{self.path} is not a file of coverage results ({error}); choose another --out."
            ) from error
        if measured != versions:
            raise ResultsError(f"{self.path} was measured with {measured}, here is {versions}; choose another --out.")
        self.rows = {row.key: row for row in rows}

    def add(self, row: Row) -> None:
        """Keep a row, in the file before anything else happens."""
        self.rows[row.key] = row
        self._write(asdict(row))

    def _write(self, content: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(content, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


DENOMINATORS = ("one right graph, of types that run", "of all types")


def eager_title(rows: Iterable[Row]) -> str:
    """How many types there are and how many of them run eagerly, in one line."""
    verdicts = [row.verdict for row in rows if row.method == EAGER]
    running = verdicts.count("runs")
    return f"{len(verdicts)} model types, of which {running} run eagerly and {len(verdicts) - running} do not"


@dataclass(frozen=True)
class Count:
    """What came of one method, in numbers of types.

    Attributes:
        verdicts: verdict → types.
        types: all that were asked for.
        running: those of them that can be built and run eagerly.
        seconds: the median of a capture; 0 where there was none.
    """

    verdicts: dict[str, int]
    types: int
    running: int
    seconds: float

    @property
    def right(self) -> int:
        """Types with one right graph."""
        return self.verdicts.get("general", 0) + self.verdicts.get("specialised", 0)

    def shares(self) -> tuple[str, str]:
        """The share with one right graph, of those that run eagerly and of all types (see `DENOMINATORS`)."""
        running, types = (f"{100 * self.right / total:.1f} % of {total}" for total in (self.running, self.types))
        return running, types


def count_verdicts(rows: Iterable[Row]) -> dict[str, Count]:
    """Method → what came of it, methods in the order of their first row; not for `eager`.

    Of a run that is not finished only those types count that the method has a row for, or that do not run.
    """
    rows = list(rows)
    eager = [row for row in rows if row.method == EAGER]
    not_running = sum(row.verdict != "runs" for row in eager)
    counts: dict[str, Count] = {}
    for method in dict.fromkeys(row.method for row in rows if row.method != EAGER):
        own = [row for row in rows if row.method == method]
        seconds = sorted(row.seconds for row in own)
        verdicts = Counter(row.verdict for row in own)
        counts[method] = Count(dict(verdicts), not_running + len(own), len(own), seconds[len(own) // 2])
    return counts


def count_causes(rows: Iterable[Row]) -> dict[str, int]:
    """Cause → how many types do not run eagerly because of it, the most frequent first."""
    return dict(Counter(row.cause for row in rows if row.method == EAGER and row.verdict != "runs").most_common())


def shown_error(row: Row, check: str) -> str:
    """The error of a check in words: a number, `refused`, or nothing where there was no such check."""
    error = row.errors.get(check, "")
    return error if isinstance(error, str) else f"{error:.1e}"
