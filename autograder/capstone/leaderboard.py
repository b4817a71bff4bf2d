"""A ranking of capstones by what they gain beyond the course, among those that change nothing else. Imports no torch.

It is computed from packages, every time, and never from a file: a file can be edited. For a class, results may be kept
in one all the same, each signed with the course's secret; a line that this course did not write is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.capstone.capstone import Package, Report
from fxopt_core.display import Displayable
from fxopt_workbench.files import replacing
from fxopt_workbench.tables import Table


class LeaderboardError(RuntimeError):
    """A result gives no place, or is not this course's; the message says which, and what to do."""


@dataclass(frozen=True)
class Entry:
    """One capstone on the board.

    Attributes:
        name: of the folder in which the package lies.
        kind: `pass`, `capture` or `cost`.
        content_hash: of its files.
        seed: of the hidden models.
        versions: of what it was run with.
        gain: on these models, in the mean, beyond the presets; `None` where it gets no rank.
        alone: of a pass, what it saves by itself; of others the gain.
        faster: how many times as fast the models ran: first quartile, median, third quartile. Ranks nobody.
        why_not: the misconceptions that keep it from a rank.
    """

    name: str
    kind: str
    content_hash: str
    seed: str
    versions: dict[str, str]
    gain: float | None
    alone: float = 0.0
    faster: tuple[float, float, float] = (1.0, 1.0, 1.0)
    why_not: tuple[str, ...] = ()

    @property
    def conditions(self) -> tuple[str, str, str]:
        """Gains are comparable only where these are the same."""
        return self.kind, self.seed, json.dumps(self.versions, sort_keys=True)


def entry_of(report: Report, folder: str | None = None) -> Entry:
    """What of a report stands on the board.

    Args:
        report: of a full check.
        folder: the name of the package's folder, by which it is known; by default the name of the package.

    Raises:
        LeaderboardError: the report is of a quick look.
    """
    if report.every > 1:
        raise LeaderboardError(f"{report.name}: a quick look, at one program in {report.every}, gives no place")
    gain = report.gain if report.passed else None
    tried = (report.kind, report.content_hash, report.seed, report.versions)
    return Entry(folder or report.name, *tried, gain, report.alone, report.faster, tuple(report.misconceptions))


def seed_for(packages: Sequence[Package], secret: str = "") -> str:
    """The seed of the hidden models for these packages: whoever changes one of them meets other models.

    The same packages get the same models, so that a quick look and a full check agree about the gain, and a ranking can
    be computed again.

    Args:
        packages: all that are to be compared.
        secret: of the course, where there is one.
    """
    contents = "\n".join(sorted({package.content_hash for package in packages}))
    return hmac.new(secret.encode(), contents.encode(), hashlib.sha256).hexdigest()[:16]


def _signature(entry: dict[str, Any], secret: str) -> str:
    text = json.dumps(entry, sort_keys=True)
    return hmac.new(f"capstone results/{secret}".encode(), text.encode(), hashlib.sha256).hexdigest()


def read_results(path: Path, secret: str) -> list[Entry]:
    """The entries of a file of results, all of which this course has signed; none where there is no file.

    Args:
        path: the file.
        secret: of the course.

    Raises:
        LeaderboardError: a line is no entry, or is not as the course wrote it.
    """
    entries = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], start=1):
        try:
            values: dict[str, Any] = json.loads(line)
            signature, given = values["signature"], values["entry"]
            entry = Entry(**given | {"why_not": tuple(given["why_not"]), "faster": tuple(given["faster"])})
        except (ValueError, TypeError, KeyError) as error:
            raise LeaderboardError(f"{path}, line {number} is not a result: {error}") from error
        if not hmac.compare_digest(str(signature), _signature(given, secret)):
            raise LeaderboardError(
                f"{path}, line {number} ({entry.name}) is not as this course wrote it: its signature does not fit. "
                "Remove the line, and compute the result from the package: fxopt leaderboard FOLDER"
            )
        entries.append(entry)
    return entries


def write_results(path: Path, entries: Iterable[Entry], secret: str) -> None:
    """Write and sign the entries; a later one takes the place of an earlier one of the same folder and conditions."""
    unique = {(entry.conditions, entry.name): entry for entry in entries}
    lines = []
    for key in sorted(unique):
        entry = json.loads(json.dumps(vars(unique[key])))
        lines.append(json.dumps({"entry": entry, "signature": _signature(entry, secret)}, sort_keys=True))
    with replacing(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines))


@dataclass(frozen=True)
class Ranking(Displayable):
    """The entries of one kind, one seed and one set of versions, in order.

    Attributes:
        kind: `pass`, `capture` or `cost`.
        seed: of the hidden models.
        versions: of what the capstones were run with.
        ranks: rank and entry. Equal gains share a rank; an entry without a gain has none.
    """

    kind: str
    seed: str
    versions: dict[str, str]
    ranks: tuple[tuple[int | None, Entry], ...]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        rows = [{"rank": rank, **vars(entry)} for rank, entry in self.ranks]
        return {"kind": self.kind, "seed": self.seed, "versions": self.versions, "entries": rows}

    def tables(self) -> list[Table]:
        """One table."""
        rows = [
            (
                "–" if rank is None else str(rank),
                entry.name,
                "none" if entry.gain is None else f"{entry.gain:+.3%}",
                *([f"{entry.alone:+.2%}", _faster(entry)] if self.kind == "pass" else []),
                entry.content_hash[:12],
                ", ".join(entry.why_not),
            )
            for rank, entry in self.ranks
        ]
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        figures = ("gain beyond", "gain alone", "times as fast") if self.kind == "pass" else ("gain",)
        headings = ("rank", "capstone", *figures, "content", "why no rank")
        return [
            Table(
                f"Leaderboard of kind {self.kind}, seed {self.seed!r}, {versions}", headings, rows, words=headings[1:]
            )
        ]


def _faster(entry: Entry) -> str:
    low, middle, high = entry.faster
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def rankings(entries: Iterable[Entry]) -> list[Ranking]:
    """A ranking for each kind, seed and set of versions, by gain; ties are in the order of their content hashes.

    One package gets one row: folders with the same content share it.
    """
    groups: dict[tuple[str, str, str], dict[str, Entry]] = {}
    for entry in entries:
        group = groups.setdefault(entry.conditions, {})
        same = group.get(entry.content_hash)
        names = sorted({*(same.name.split(" = ") if same else []), entry.name})
        group[entry.content_hash] = Entry(**vars(entry) | {"name": " = ".join(names)})
    found = []
    for _, group in sorted(groups.items()):
        ordered = sorted(
            group.values(), key=lambda entry: (entry.gain is None, -(entry.gain or 0.0), entry.content_hash)
        )
        gains = [entry.gain for entry in ordered]
        ranks = tuple((None if entry.gain is None else gains.index(entry.gain) + 1, entry) for entry in ordered)
        found.append(Ranking(ordered[0].kind, ordered[0].seed, ordered[0].versions, ranks))
    return found
