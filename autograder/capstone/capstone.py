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
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from importlib.metadata import version
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, Self

from autograder.capstone.fingerprints import origin_of
from autograder.course.task import Task
from autograder.exchange.channel import Message
from autograder.exchange.verdict import CaseVerdict, TaskOutcome
from autograder.exercises.capstone import EVERY, FAMILIES, KINDS, Kind
from autograder.grading.grading import Grader
from autograder.grading.judging import Judge
from autograder.grading.sandbox import Limits, bubblewrap
from fxopt_core.display import Displayable
from fxopt_workbench.tables import Table

MOST_BYTES = 1 << 20
"""How large a capstone may be: it is code, and no weights."""

MOST_PLANTS = 80
"""How many programs are made for a candidate's own kind of rewrite, at most."""

LEAST_GAIN = 1e-6
"""A gain up to which there is none: figures are whole numbers, and their shares are rounded."""

OF_ONE_KIND = 2
"""From how many plants of one kind on no further model is asked for more, for rewrites of the same operations."""

SAME_PLACES = 0.9
"""From which share of its places on a pass is a copy of one of the course, if it finds no more after it."""

LEFT_OUT = {"__pycache__", "build", "dist"}
"""Folders that are made, not written; so are hidden ones and those that end with `.egg-info`."""

NO_GAIN = {
    "pass": (
        "Your pass saves nothing that the course's passes do not save already. Behind the template and the presets the "
        "hidden models need as many nodes, kernels, bytes and FLOPs with your pass as without it, or more. (Counted on "
        "core ATen: to write the same operation in another way saves nothing.) The table names the kinds of models: "
        "what do they still do that they need not do, or what does your pass refuse?"
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
NEAR_COPY = {
    "places": (
        "Your pass rewrites the places that {source} of the course rewrites ({share:.0%} of them), and once that has "
        "run, next to nothing is left for yours. A near-copy gets no rank: find something that no pass of the course "
        "does."
    ),
    "code": (
        "{share:.0%} of the code that you added to the template is the course's own ({source} above all), whatever the "
        "names in it are. A near-copy gets no rank: write the idea down in your own way, or take another one."
    ),
    "template": (
        "This is the template as it was written, or nearly. It passes, so that you can begin with something that "
        "works, and it gets no rank: replace its example by something of your own."
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
        before: of a pass: nodes, kernels, bytes and FLOPs of a call, in core ATen; of a capture tool: whether
            `symbolic_trace` captures the model; of a cost tool: the shares of FLOPs and bytes that the template's tool
            tells.
        after: the same after the pass, or of this tool.
        alone: of a pass: the mean of the four shares that it saves by itself; of the others the gain.
        gain: what counts. Of a pass the mean of the four shares that are saved where the template and the presets have
            run before it, and the presets run once more after it; of the others the mean of what `after` has more.
        seconds: of a pass: first quartile, median and third quartile of both, on this machine; no part of the gain.
            Empty where it left the model alone.
    """

    model: str
    before: dict[str, float]
    after: dict[str, float]
    alone: float
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
        """The mean of the gains on the hidden models; 0 without. Of a pass: behind the template and the presets."""
        return sum(model.gain for model in self.models) / len(self.models) if self.models else 0.0

    @property
    def alone(self) -> float:
        """The mean of what a pass saves by itself, without the presets."""
        return sum(model.alone for model in self.models) / len(self.models) if self.models else 0.0

    @property
    def faster(self) -> tuple[float, float, float]:
        """How many times as fast the models ran behind a pass: first quartile, median and third quartile of those that
        it changed.

        All 1 where it changed none.
        """
        ratios = [one.seconds["before"][1] / one.seconds["after"][1] for one in self.models if one.seconds]
        low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else [*ratios, 1.0][:1] * 3
        return low, middle, high

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {**asdict(self), "gain": self.gain, "alone": self.alone, "faster": self.faster}

    def tables(self) -> list[Table]:
        """Tables: the verdict, the programs, and what is gained."""
        rows = [(kind, *map(str, counts)) for kind, counts in self.programs.items()]
        of_pass = self.kind == "pass" and bool(self.models)
        gains = [
            (
                one.model,
                *(f"{_figure(one.before[name])} → {_figure(one.after[name])}" for name in one.before),
                *([f"{one.alone:+.1%}"] if of_pass else []),
                f"{one.gain:+.1%}",
                *([_times(one.seconds)] if of_pass else []),
            )
            for one in self.models
        ]
        figures = tuple(self.models[0].before) if self.models else ()
        verdict = UNRANKED.get(self.misconceptions[0], self.status) if self.misconceptions else self.status
        gained = ("gain alone", "gain beyond", "time") if of_pass else ("gain",)
        headings = ("model", *figures, *gained) if self.models else ()
        done = {"pass": "changed", "capture": "captured", "cost": "counted"}[self.kind]
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        notes = [
            f"{'In the sandbox' if self.sandboxed else 'As a plain process, with your rights'}; seed {self.seed!r}; "
            f"{versions}; content {self.content_hash[:12]}"
        ]
        if self.every > 1:
            notes.append(f"A quick look: all models, but only one in {self.every} of the other programs was tried.")
        if of_pass:
            notes.append(
                f"Alone it saves {self.alone:+.2%}. What counts is the gain beyond: what it still saves where the "
                "template and the presets have run before it."
            )
        if any(one.seconds for one in self.models):
            low, middle, high = self.faster
            notes.append(
                f"Models that it changed were timed in turn on this machine: {middle:.2f} times as fast (half of "
                f"them: {low:.2f} to {high:.2f}). Time is no part of the gain."
            )
        return [
            Table(f"{self.name}: {verdict}", (), (), tuple(self.messages)),
            Table("Programs", ("sort", "tried", done, "wrong"), rows, words=("sort",)),
            Table(
                f"Gain on hidden models{' beyond the presets' if of_pass else ''}: {self.gain:+.2%}",
                headings,
                gains,
                tuple(notes),
                words=headings,
            ),
        ]


UNRANKED = {
    "no gain": "right, and no gain",
    "the template": "right, and the template",
    "near copy": "right, and a near-copy",
}
"""What is right and gets no rank."""


def _figure(value: float) -> str:
    return f"{value:.1%}" if isinstance(value, float) else f"{value:,}"


def _times(seconds: dict[str, list[float]]) -> str:
    return " → ".join(_time(seconds[name]) for name in ("before", "after")) if seconds else "left alone"


def _time(quartiles: list[float]) -> str:
    low, median, high = (1e6 * seconds for seconds in quartiles)
    return f"{median:.0f} µs ({low:.0f} to {high:.0f})"


class Harness:
    """Tries capstones, one after the other, on the same hidden programs. A context manager."""

    def __init__(
        self,
        seed: str,
        *,
        kind: str = "pass",
        every: int = 1,
        families: int | None = None,
        sandboxed: bool | None = None,
    ) -> None:
        """Prepare.

        Args:
            seed: from which hidden programs and models come.
            kind: what the capstones are: `pass`, `capture` or `cost`.
            every: 1 for all programs; n for a quick look at every n-th trap and random program.
            families: how many families of models a pass or a cost tool is tried on; `None` for all. Fewer give no place
                either.
            sandboxed: `None` uses bubblewrap when it is there.

        Raises:
            CapstoneError: there is no such kind.
            ValueError: few families are asked for, and all programs.
        """
        if families is not None and every == 1:
            raise ValueError("a check with few families gives no place; give `every`, too")
        self._seed, self._kind, self._every = seed, kind_named(kind), every
        self._sandboxed = bubblewrap() is not None if sandboxed is None else sandboxed
        environment = {EVERY: str(every)} | ({} if families is None else {FAMILIES: str(families)})
        # Its programs are told apart in the report anyway, and whoever runs it knows the seed.
        self._judge = Judge(Limits(), environment, self._sandboxed)
        self._seen: list[tuple[Message, Message]] = []
        self._grader = Grader(
            [self._kind.task],
            seed,
            sandboxed=self._sandboxed,
            judge=self._judge,
            tells_hidden=True,
            watch=lambda _, case, evidence: self._seen.append((case, evidence)),
        )

    def __enter__(self) -> Self:
        self._judge.__enter__()
        self._judge.start()
        self._grader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._grader.__exit__(*error)
        self._judge.__exit__(*error)

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
        self._seen.clear()
        outcome = self._outcome(package, seconds)
        models = list(_gains(outcome, package.kind)) if outcome.status == "passed" else []
        if outcome.status == "passed":
            _unranked(outcome, package, self._kind.task.name, sum(model.gain for model in models))
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
        task = task if seconds is None else replace(task, seconds=seconds)
        outcome, _ = self._grader.grade(task, [cell])
        if outcome.status == "passed" and package.kind == "pass":
            outcome = self._planted(task, cell, outcome)
        if outcome.misconceptions == ["raised"] and "InstallError: " in outcome.messages[0]:
            said = outcome.messages[0].partition("InstallError: ")[2]
            outcome.messages, outcome.misconceptions = [NOT_INSTALLED.format(said=said)], ["does not install"]
        return outcome

    def _planted(self, task: Task, cell: dict[str, str], outcome: TaskOutcome) -> TaskOutcome:
        """The outcome with what is found on programs that are made from what the candidate rewrote."""
        plants: list[Message] = []
        taken: Counter[tuple[str, str]] = Counter()
        for case, evidence in self._seen:
            if "model" not in case.header["parameters"] or len(plants) >= MOST_PLANTS:
                continue
            known = [list(kind) for kind, often in taken.items() if often >= OF_ONE_KIND]
            for number in count():
                more = {"plant": number, "known": known}
                asked = case.header | {"parameters": case.header["parameters"] | more}
                plant = self._judge.follow_up(task, Message(asked, case.blob), evidence)
                if plant is None:
                    break
                given = plant.header["parameters"]
                kind = (given["planted"], given["signature"])
                taken[kind] += 1
                plants.append(plant)
        if not plants:
            return outcome
        with self._grader.submission():
            found = self._grader.round_of(task, [cell], plants[:MOST_PLANTS])
        found.cases = outcome.cases + found.cases
        found.seconds += outcome.seconds
        return found


def _gains(outcome: TaskOutcome, kind: str) -> Iterator[ModelGain]:
    hidden = [verdict for verdict in outcome.cases if verdict.hidden and "before" in verdict.figures]
    if kind != "pass":
        for verdict in hidden:
            found = verdict.figures
            yield ModelGain(
                verdict.case, found["before"], found["after"], found["gain"], found["gain"], found["seconds"]
            )
        return
    later = {tuple(one.figures["model"]): one.figures["beyond"] for one in hidden if one.figures["later"]}
    for verdict in hidden:
        found, key = verdict.figures, tuple(verdict.figures["model"])
        if not found["later"] and key in later:
            yield ModelGain(verdict.case, found["before"], found["after"], found["alone"], later[key], found["seconds"])


def _unranked(outcome: TaskOutcome, package: Package, template: str, gained: float) -> None:
    """Write into the outcome why what is right gets no rank, if so."""
    origin = origin_of(package.files, template)
    if origin.nothing_own:
        name, message = "the template", NEAR_COPY["template"]
    elif origin.copied:
        name, message = "near copy", NEAR_COPY["code"].format(share=origin.shared, source=f"`{origin.source}`")
    elif copied := _same_places(outcome):
        name, message = "near copy", NEAR_COPY["places"].format(source=copied[0], share=copied[1])
    elif gained <= LEAST_GAIN:
        name, message = "no gain", NO_GAIN[package.kind]
    else:
        return
    outcome.status, outcome.messages, outcome.misconceptions = "wrong", [message], [name]


def _same_places(outcome: TaskOutcome) -> tuple[str, float] | None:
    """The pass of the course whose places a candidate rewrites, and which share of its own these are."""
    every: Counter[str] = Counter()
    for verdict in outcome.cases:
        found = verdict.figures
        if "shared" in found:
            every["later" if found["later"] else "places"] += found["places"]
            if not found["later"]:
                every.update({f"by {name}": shared for name, shared in found["shared"].items()})
    names = [name for name in every if name.startswith("by ")]
    if not every["places"] or not names or every["later"] > (1 - SAME_PLACES) * every["places"]:
        return None
    best = max(names, key=lambda name: every[name])
    share = every[best] / every["places"]
    return (best.removeprefix("by "), share) if share >= SAME_PLACES else None


def _counts(cases: list[CaseVerdict]) -> dict[str, list[int]]:
    """How many programs of each kind were tried, changed, and wrong."""
    counts: dict[str, list[int]] = {}
    for verdict in cases:
        kind = next((kind for kind in ("trap", "random program", "plant") if verdict.case.startswith(kind)), "model")
        row = counts.setdefault(kind + "s", [0, 0, 0])
        row[0] += 1
        row[1] += bool(verdict.figures.get("changed"))
        row[2] += not verdict.passed
    return counts
