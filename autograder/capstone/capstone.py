"""`fxopt capstone`: a learner's package is installed and run in the sandbox, and judged outside. Imports no torch.

It goes the way of every graded task (`grading.py`): the package's files travel as one cell that installs them, what it
makes comes back as graphs in their JSON form and as figures, and the judge compares. What the package says of itself
reaches no report.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from autograder.exchange.verdict import CaseVerdict, TaskOutcome
from autograder.exercises.capstone import EVERY, KINDS, Kind
from autograder.grading.grading import Grader
from autograder.grading.sandbox import bubblewrap
from fxopt_core.display import Displayable
from fxopt_workbench.tables import Table

MOST_BYTES = 1 << 20
"""How large a capstone may be: it is code, and no weights."""

LEFT_OUT = {"__pycache__", "build", "dist"}
"""Folders that are made, not written; so are hidden ones and those that end with `.egg-info`."""

NO_GAIN = {
    "pass": (
        "Your pass changes nothing for the better on the hidden models: in the mean they need as many nodes, kernels, "
        "bytes and FLOPs as before, or more. `fxopt capstone check` names their kinds: what do such models do that "
        "they need not do, or what does your pass refuse?"
    ),
    "capture": (
        "Your tool captures no more of the hidden models than `torch.fx.symbolic_trace` does. What it returns is "
        "right; `fxopt capstone check` shows which kinds of model it refuses: find one that it need not refuse."
    ),
    "cost": (
        "Your tool comes no nearer to what is counted than the template's does. What it says is right; of which "
        "operators does it say `None`? Begin with those that move the most bytes."
    ),
}
MORE_DEPENDENCIES = (
    "Your package depends on {names}. A capstone depends on `fxopt` only (which brings torch): write the rest yourself."
)
NOT_INSTALLED = "Your package does not install without the network: {said}"
CELL = """\
from autograder.exercises.capstone.installing import install
registered = install({files!r}, {group!r})
"""


class CapstoneError(RuntimeError):
    """A folder holds no capstone that could be tried; the message says why and what to do."""


@dataclass(frozen=True)
class Package:
    """A capstone as it lies in its folder.

    Attributes:
        name: as its pyproject.toml says.
        dependencies: names of the packages that it asks for.
        files: content by path.
        kind: what it registers: `pass`, `capture` or `cost`.
    """

    name: str
    dependencies: tuple[str, ...]
    files: dict[str, bytes]
    kind: str = "pass"

    @property
    def content_hash(self) -> str:
        """SHA-256 over the paths and contents of all files, in hexadecimal."""
        total = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            for part in (path.encode(), content):
                total.update(len(part).to_bytes(8, "big") + part)
        return total.hexdigest()


def read_package(folder: Path) -> Package:
    """Read a package from its folder; nothing of it is run.

    Raises:
        CapstoneError: there is no such folder or no readable pyproject.toml in it, it holds links, is too large, or
            registers several kinds of things.
    """
    if not (folder / "pyproject.toml").is_file():
        raise CapstoneError(
            f"{folder} holds no pyproject.toml; name the folder of a package, or make one: fxopt capstone new FOLDER"
        )
    files: dict[str, bytes] = {}
    size = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part in LEFT_OUT or part.startswith(".") or part.endswith(".egg-info") for part in inside.parts):
            continue
        if path.is_symlink():
            raise CapstoneError(f"{inside} is a link; a capstone holds its files itself")
        if path.is_file():
            size += path.stat().st_size
            if size > MOST_BYTES:
                raise CapstoneError(f"{folder} holds more than {MOST_BYTES >> 20} MiB; keep code only")
            files[inside.as_posix()] = path.read_bytes()
    try:
        project = tomllib.loads(files["pyproject.toml"].decode())["project"]
        name, asked = str(project["name"]), [str(line) for line in project.get("dependencies", [])]
        groups = set(project.get("entry-points", {}))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise CapstoneError(f"pyproject.toml in {folder} cannot be read: {type(error).__name__}: {error}") from error
    kinds = [kind.name for kind in KINDS if kind.group in groups]
    if len(kinds) > 1:
        raise CapstoneError(f"the package registers a {' and a '.join(kinds)}; a capstone is one thing: choose")
    dependencies = tuple(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0].lower() for line in asked)
    # What registers nothing is tried as a pass would be, and is told so.
    return Package(name, dependencies, files, kinds[0] if kinds else KINDS[0].name)


def kind_named(name: str) -> Kind:
    """The kind of capstone of this name.

    Raises:
        CapstoneError: there is none.
    """
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise CapstoneError(f"there is no kind {name!r} of capstone; expected {', '.join(kind.name for kind in KINDS)}")


def new_package(folder: Path, kind: str = "pass") -> None:
    """Write the template of a kind, with its example, into a new folder.

    Raises:
        CapstoneError: there is something already, or there is no such kind.
    """
    task = kind_named(kind).task
    if folder.exists():
        raise CapstoneError(f"{folder} exists already; name a folder that does not")
    with resources.as_file(resources.files("autograder") / "capstone" / "template" / task.name) as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))


@dataclass(frozen=True)
class ModelGain:
    """What a capstone gains on one hidden model.

    Attributes:
        model: its kind, and the level of its graph.
        before: of a pass: nodes, kernels, bytes and FLOPs of a call; of a capture tool: whether `symbolic_trace`
            captures the model; of a cost tool: the shares of FLOPs and bytes that the template's tool tells.
        after: the same after the pass, or of this tool.
        gain: of a pass the mean of the four shares saved, of the others the mean of what `after` has more.
        seconds: of a pass: first quartile, median and third quartile of both, on this machine; no part of the gain.
    """

    model: str
    before: dict[str, float]
    after: dict[str, float]
    gain: float
    seconds: dict[str, list[float]]


@dataclass(frozen=True)
class Report(Displayable):
    """What the harness found of a capstone; nothing in it comes from the package, except its name.

    Attributes:
        name: of the package.
        kind: `pass`, `capture` or `cost`.
        content_hash: of its files.
        seed: from which the hidden programs and models come.
        every: 1 where all programs were tried, n where only every n-th was.
        versions: of what it was run with.
        passed: whether nothing is wrong, and something is gained.
        status: how the run ended, as of every task.
        messages: what the learner reads.
        misconceptions: names of what was recognised, in the order of `messages`.
        programs: of each sort of program, how many there were, how many were changed (or captured, or counted in
            part), how many went wrong.
        models: gains on hidden models; empty where something is wrong.
        sandboxed: whether the package ran in bubblewrap.
    """

    name: str
    kind: str
    content_hash: str
    seed: str
    every: int
    versions: dict[str, str]
    passed: bool
    status: str
    messages: list[str]
    misconceptions: list[str]
    programs: dict[str, list[int]]
    models: list[ModelGain]
    sandboxed: bool

    @property
    def gain(self) -> float:
        """The mean of the gains on the hidden models; 0 without."""
        return sum(model.gain for model in self.models) / len(self.models) if self.models else 0.0

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {**asdict(self), "gain": self.gain}

    def tables(self) -> list[Table]:
        """Tables: the verdict, the programs, and what is gained."""
        rows = [(kind, *map(str, counts)) for kind, counts in self.programs.items()]
        gains = [
            (
                one.model,
                *(f"{_figure(one.before[name])} → {_figure(one.after[name])}" for name in one.before),
                f"{one.gain:+.1%}",
                *([" → ".join(_time(one.seconds[name]) for name in ("before", "after"))] if one.seconds else []),
            )
            for one in self.models
        ]
        figures = tuple(self.models[0].before) if self.models else ()
        verdict = "right, and no gain" if self.misconceptions == ["no gain"] else self.status
        timed = bool(self.models) and bool(self.models[0].seconds)
        headings = ("model", *figures, "gain", *(["time"] if timed else [])) if self.models else ()
        done = {"pass": "changed", "capture": "captured", "cost": "counted"}[self.kind]
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        notes = [
            f"{'In the sandbox' if self.sandboxed else 'As a plain process, with your rights'}; seed {self.seed!r}; "
            f"{versions}; content {self.content_hash[:12]}"
        ]
        if self.every > 1:
            notes.append(f"A quick look: only one in {self.every} of the programs was tried.")
        if timed:
            notes.append("Time is shown, and is no part of the gain.")
        return [
            Table(f"{self.name}: {verdict}", (), (), tuple(self.messages)),
            Table("Programs", ("sort", "tried", done, "wrong"), rows, words=("sort",)),
            Table(f"Gain on hidden models: {self.gain:+.2%}", headings, gains, tuple(notes), words=headings),
        ]


def _figure(value: float) -> str:
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def _time(quartiles: list[float]) -> str:
    low, median, high = (1e6 * seconds for seconds in quartiles)
    return f"{median:.0f} µs ({low:.0f} to {high:.0f})"


class Harness:
    """Tries capstones, one after the other, on the same hidden programs. A context manager."""

    def __init__(self, seed: str, *, kind: str = "pass", every: int = 1, sandboxed: bool | None = None) -> None:
        """Prepare.

        Args:
            seed: from which hidden programs and models come.
            kind: what the capstones are: `pass`, `capture` or `cost`.
            every: 1 for all programs; n for a quick look at every n-th.
            sandboxed: `None` uses bubblewrap when it is there.

        Raises:
            CapstoneError: there is no such kind.
        """
        self._seed, self._kind, self._every = seed, kind_named(kind), every
        self._sandboxed = bubblewrap() is not None if sandboxed is None else sandboxed
        environment = {EVERY: str(every)}
        # Its programs are told apart in the report anyway, and whoever runs it knows the seed.
        self._grader = Grader(
            [self._kind.task], seed, sandboxed=self._sandboxed, environment=environment, tells_hidden=True
        )

    def __enter__(self) -> Self:
        self._grader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._grader.__exit__(*error)

    def check(self, package: Package, *, seconds: float | None = None) -> Report:
        """Install a package in the sandbox and judge what it registers.

        Args:
            package: the capstone.
            seconds: limit for the package's side of each of the two rounds; by default that of the task.

        Raises:
            ValueError: the package is of another kind than this harness tries.
        """
        if package.kind != self._kind.name:
            raise ValueError(f"{package.name} is a {package.kind}, and this harness tries a {self._kind.name}.")
        outcome = self._outcome(package, seconds)
        models = list(_gains(outcome)) if outcome.status == "passed" else []
        if outcome.status == "passed" and sum(model.gain for model in models) <= 0:
            outcome.status, outcome.messages, outcome.misconceptions = "wrong", [NO_GAIN[package.kind]], ["no gain"]
        return Report(
            package.name,
            package.kind,
            package.content_hash,
            self._seed,
            self._every,
            {"fxopt": version("fxopt"), "torch": version("torch"), "Python": platform.python_version()},
            outcome.status == "passed",
            outcome.status,
            outcome.messages,
            outcome.misconceptions,
            _counts(outcome.cases),
            models,
            self._sandboxed,
        )

    def _outcome(self, package: Package, seconds: float | None) -> TaskOutcome:
        task = self._kind.task
        others = sorted({name for name in package.dependencies if name not in ("fxopt", package.name)})
        if others:
            message = MORE_DEPENDENCIES.format(names=", ".join(f"`{name}`" for name in others))
            return TaskOutcome(task.name, task.title, "wrong", [message], ["depends on more"])
        files = {path: b64encode(content).decode() for path, content in package.files.items()}
        cell = {"id": task.answer_id, "source": CELL.format(files=files, group=self._kind.group)}
        outcome, _ = self._grader.grade(task if seconds is None else replace(task, seconds=seconds), [cell])
        if outcome.misconceptions == ["raised"] and "InstallError: " in outcome.messages[0]:
            said = outcome.messages[0].partition("InstallError: ")[2]
            outcome.messages, outcome.misconceptions = [NOT_INSTALLED.format(said=said)], ["does not install"]
        return outcome


def _gains(outcome: TaskOutcome) -> Iterator[ModelGain]:
    for verdict in outcome.cases:
        if verdict.hidden and "gain" in verdict.figures:
            figures = {name: verdict.figures[name] for name in ("before", "after", "gain", "seconds")}
            yield ModelGain(verdict.case, **figures)


def _counts(cases: list[CaseVerdict]) -> dict[str, list[int]]:
    """How many programs of each kind were tried, changed, and wrong."""
    counts: dict[str, list[int]] = {}
    for verdict in cases:
        kind = next((kind for kind in ("trap", "random program") if verdict.case.startswith(kind)), "model")
        row = counts.setdefault(kind + "s", [0, 0, 0])
        row[0] += 1
        row[1] += bool(verdict.figures.get("changed"))
        row[2] += not verdict.passed
    return counts
