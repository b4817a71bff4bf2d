"""Small git repositories to practise on: a series of commits with its review, and a history that `git bisect` searches.

Every repository is made anew in a folder of its own, with fixed dates and names, so that hashes are the same
everywhere. Nothing outside that folder is read or written, no settings of the user either.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxopt_workbench.tables import Table

LONGEST_SUBJECT = 72
"""Characters of a commit's first line, after which many tools cut it off."""

SKIP = 125
"""The exit status by which `git bisect run` learns that a commit cannot be tested."""

SECONDS = 120.0
"""How long one command may run."""

_WHO = "A contributor <contributor@example.org>"
_BEGIN = 1_700_000_000


class RepositoryError(RuntimeError):
    """git is not there, or refuses; the message says what it was asked and what it said."""


@dataclass(frozen=True)
class Change:
    """A commit that is to be made.

    Attributes:
        message: its message: a first line, and perhaps a blank line and more.
        files: paths with their new contents; `None` removes a file.
    """

    message: str
    files: Mapping[str, str | None]


@dataclass(frozen=True)
class Commit:
    """A commit of a repository.

    Attributes:
        name: its hash, shortened.
        subject: the first line of its message.
        body: the rest of its message.
        files: the paths that it changes.
    """

    name: str
    subject: str
    body: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Bisection:
    """What `git bisect run` found.

    Attributes:
        culprit: the first bad commit; `None` where skips hide it.
        tested: each commit that was tested, by its first line, with "good", "bad" or "skip", in order.
    """

    culprit: Commit | None
    tested: tuple[tuple[str, str], ...]


class Repository:
    """A repository in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str, given: str | None = None, allowed: Sequence[int] = (0,)) -> str:
        """Run git there; what it prints.

        Args:
            arguments: as on the command line.
            given: what it reads from its input.
            allowed: exit statuses that are no error.

        Raises:
            RepositoryError: git is not installed, or ends with another status.
        """
        program = shutil.which("git")
        if program is None:
            raise RepositoryError("git is not installed: install it with your system's package manager")
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            [program, "-C", str(self.folder), *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=kept | settings | {"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode not in allowed:
            raise RepositoryError(f"git {' '.join(arguments)} says: {(done.stderr or done.stdout).strip()[:400]}")
        return done.stdout

    def log(self, *which: str) -> list[Commit]:
        """The commits, the oldest first; `which` as for `git log`."""
        text = self.git("log", "--reverse", "--name-only", "--format=%x1e%h%x1f%s%x1f%b%x1f", *which)
        found = []
        for record in text.split("\x1e")[1:]:
            name, subject, body, files = record.split("\x1f")
            found.append(Commit(name, subject, body.strip(), tuple(files.split())))
        return found

    def outcome(self, commit: str, command: Sequence[str]) -> int:
        """The exit status of a command in a fresh checkout of a commit."""
        place = self.folder.parent / f"{self.folder.name}-{commit}"
        self.git("worktree", "add", "--quiet", "--detach", str(place), commit)
        try:
            done = subprocess.run(
                command,
                cwd=place,
                capture_output=True,
                check=False,
                timeout=SECONDS,
                env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            )
        finally:
            self.git("worktree", "remove", "--force", str(place))
        return done.returncode

    def bisect(self, good: str, bad: str, command: Sequence[str]) -> Bisection:
        """Let `git bisect run` look for the first bad commit.

        Args:
            good: a commit at which all was well.
            bad: a later one at which it is not.
            command: what tests a checkout; its exit status is 0 for good, `SKIP` for neither, anything else for bad.

        Raises:
            RepositoryError: git refuses, for example because `good` is bad.
        """
        self.git("bisect", "start", bad, good)
        try:
            # 2: only skipped commits are left.
            self.git("bisect", "run", *command, allowed=(0, 2))
            said = self.git("bisect", "log")
        finally:
            self.git("bisect", "reset")
        steps = re.findall(r"^# (good|bad|skip): \[[0-9a-f]+\] (.*)$", said, re.MULTILINE)
        first = re.search(r"^# first bad commit: \[([0-9a-f]+)\]", said, re.MULTILINE)
        culprit = self.log("-1", first[1])[0] if first else None
        # The first two are the ends that were given.
        return Bisection(culprit, tuple((subject, answer) for answer, subject in steps[2:]))


def make_repository(folder: Path, changes: Sequence[Change]) -> Repository:
    """Make a repository in an empty folder, a commit for each change.

    Raises:
        RepositoryError: the folder is not empty, or git refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RepositoryError(f"{folder.name} is not empty: name a folder that is, or one that is not there yet")
    made = Repository(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    stream = []
    for number, change in enumerate(changes):
        when = f"{_WHO} {_BEGIN + 3600 * number} +0000"
        stream += ["commit refs/heads/main", f"author {when}", f"committer {when}", _data(change.message)]
        for path, content in sorted(change.files.items()):
            stream.append(f"D {path}" if content is None else f"M 100644 inline {path}\n{_data(content)}")
    made.git("fast-import", "--quiet", given="\n".join([*stream, "done", ""]))
    made.git("reset", "--quiet", "--hard", "main")
    return made


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


VAGUE = re.compile(
    r"^(wip|fix(es|ed)?|updates?|changes?|misc|stuff|more|cleanup|review|address)\b.{0,18}$", re.IGNORECASE
)
"""First lines that say nothing of what changes."""


def review(repository: Repository, command: Sequence[str]) -> Table:
    """Go through a series with a reviewer's checklist: one row for each commit.

    The checks: the first line says what changes, within 72 characters and without a full stop; the rest says why; the
    commit has one idea, that is, it stays within one folder besides tests and documentation; code comes with a test;
    and the tests pass at this commit, not only at the last one.

    Args:
        repository: the series.
        command: what tests a checkout; status 0 is passed.
    """
    rows = []
    for commit in repository.log():
        code = [path for path in commit.files if path.endswith((".py", ".yaml")) and not _is_test(path)]
        folders = {path.split("/")[0] for path in code}
        rows.append(
            (
                commit.subject,
                _mark(len(commit.subject) <= LONGEST_SUBJECT and commit.subject[-1:] != "." and not _vague(commit)),
                _mark(bool(commit.body)),
                _mark(len(folders) <= 1),
                _mark(not code or any(_is_test(path) for path in commit.files)),
                _mark(repository.outcome(commit.name, command) == 0),
            )
        )
    return Table("Review", ("commit", "says what", "says why", "one idea", "has a test", "tests pass"), rows)


def _vague(commit: Commit) -> bool:
    return VAGUE.match(commit.subject) is not None


def _is_test(path: str) -> bool:
    return Path(path).name.startswith("test_")


def _mark(good: bool) -> str:
    return "yes" if good else "NO"
