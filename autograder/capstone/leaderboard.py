"""A local ranking of capstones by what they gain, among those that change nothing else. Imports no torch.

The board is a file of JSON lines, one a capstone under one seed and in one set of versions. Timings are no part of it,
so that the same capstones give the same ranking whenever and however often they are tried.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.capstone.capstone import Report
from fxopt_core.display import Displayable
from fxopt_workbench.files import replacing
from fxopt_workbench.tables import Table


class LeaderboardError(RuntimeError):
    """A file is no leaderboard; the message says which line is wrong."""


@dataclass(frozen=True)
class Entry:
    """One capstone on the board.

    Attributes:
        name: of the package.
        kind: `pass`, `capture` or `cost`.
        content_hash: of its files.
        seed: of the hidden models.
        versions: of what it was run with.
        gain: on these models, in the mean; `None` where it is not equivalent, or gains nothing.
        why_not: the misconceptions that keep it from a rank.
    """

    name: str
    kind: str
    content_hash: str
    seed: str
    versions: dict[str, str]
    gain: float | None
    why_not: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies an entry: a second run under it takes its place."""
        return self.content_hash, self.kind, self.seed, json.dumps(self.versions, sort_keys=True)

    @property
    def conditions(self) -> tuple[str, str, str]:
        """Gains are comparable only where these are the same."""
        return self.key[1:]


def entry_of(report: Report) -> Entry:
    """What of a report stands on the board.

    Raises:
        LeaderboardError: the report is of a quick look.
    """
    if report.every > 1:
        raise LeaderboardError(f"{report.name}: a quick look, at one program in {report.every}, gives no place")
    gain = report.gain if report.passed else None
    tried = (report.kind, report.content_hash, report.seed, report.versions)
    return Entry(report.name, *tried, gain, tuple(report.misconceptions))


def read_board(path: Path) -> list[Entry]:
    """The entries of a file; none where there is no file.

    Raises:
        LeaderboardError: a line is no entry.
    """
    entries = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], start=1):
        try:
            values: dict[str, Any] = json.loads(line)
            entries.append(Entry(**{**values, "why_not": tuple(values["why_not"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise LeaderboardError(f"{path}, line {number} is no entry of a leaderboard: {error}") from error
    return entries


def write_board(path: Path, entries: Iterable[Entry]) -> None:
    """Write the entries, each once: a later one takes the place of an earlier one with the same key."""
    unique = {entry.key: entry for entry in entries}
    lines = [json.dumps(vars(unique[key]), sort_keys=True) for key in sorted(unique)]
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
                entry.content_hash[:12],
                ", ".join(entry.why_not),
            )
            for rank, entry in self.ranks
        ]
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        headings = ("rank", "capstone", "gain", "content", "why no rank")
        return [
            Table(
                f"Leaderboard of kind {self.kind}, seed {self.seed!r}, {versions}", headings, rows, words=headings[1:]
            )
        ]


def rankings(entries: Iterable[Entry]) -> list[Ranking]:
    """A ranking for each kind, seed and set of versions, by gain; ties are in the order of their content hashes."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.conditions, []).append(entry)
    found = []
    for _, group in sorted(groups.items()):
        ordered = sorted(group, key=lambda entry: (entry.gain is None, -(entry.gain or 0.0), entry.content_hash))
        gains = [entry.gain for entry in ordered]
        ranks = tuple((None if entry.gain is None else gains.index(entry.gain) + 1, entry) for entry in ordered)
        found.append(Ranking(group[0].kind, group[0].seed, group[0].versions, ranks))
    return found
