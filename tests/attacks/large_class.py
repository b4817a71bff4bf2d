"""Grades a class of made-up students in one run, and holds against it what a department relies on.

    python tests/attacks/large_class.py --students 1000 --jobs 2 [--unit day0_start] [--seed 0] [--json PATH]

Who handed in what is known, so every verdict is compared with the one that its answer has to get. Meanwhile the memory
of all processes and the progress bar are watched: memory must not grow with the number of submissions, the bar must say
how many are graded, and its estimate of the time that is left must come true.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from autograder.authoring.gate import documented
from autograder.classroom.generate import Generated, generate
from autograder.course.course import Course
from autograder.course.tasks import find_task
from autograder.records.verdicts import VerdictStore

ROOT = Path(__file__).parents[2]

BAR = re.compile(r"(\d+)/(\d+) (\d+):(\d\d):(\d\d) left: (?:(\d+):(\d\d):(\d\d)|-:--:--)")
"""What the progress bar says: how many of how many, the time that passed, and the time that is left, if it knows."""

OUTCOME = re.compile(r" / \w+: [\d.]+ of [\d.]+ points")
"""What is printed of each submission once it is graded."""

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

SAMPLE_SECONDS = 2.0
"""Pause between two looks at the memory."""

GROWTH = 1.1
"""How much more memory the last quarter of a run may take than the second one."""

ESTIMATE = 0.2
"""By which part of the time that a run took from some moment on the estimate of that moment may be off."""


@dataclass(frozen=True)
class Told:
    """What the progress bar said at one moment.

    Attributes:
        at: seconds since the start.
        done: how many submissions were graded.
        of: how many there are.
        left: its estimate of the seconds that are left; `None` as long as it has none.
        printed: how many submissions had been printed as graded before.
    """

    at: float
    done: int
    of: int
    left: float | None
    printed: int = 0


@dataclass
class Report:
    """What a run came to.

    Attributes:
        students: how many handed in.
        seconds: wall time of grading.
        memory: for each quarter of the time the median of what all processes take together, in bytes.
        back: where the progress bar went backwards or was behind what was printed, one line each.
        estimates: by quarter of the submissions, how far the time left was off, as a part of what it really was.
        wrong: verdicts that are not what the answer has to get, one line each.
        verdicts: how many verdicts on single answers were compared.
    """

    students: int
    seconds: float = 0.0
    memory: list[float] = field(default_factory=list)
    back: list[str] = field(default_factory=list)
    estimates: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    verdicts: int = 0


def readings(said: str, at: float, printed: int = 0) -> Iterator[Told]:
    """What the progress bar said in a piece of a terminal's output, before which some outcomes had been printed."""
    text = CONTROL.sub("", said)
    outcomes = [found.start() for found in OUTCOME.finditer(text)]
    for found in BAR.finditer(text):
        done, of, *clock = (None if part is None else int(part) for part in found.groups())
        hours, minutes, seconds = clock[3:]
        left = None if hours is None else 3600 * hours + 60 * (minutes or 0) + (seconds or 0)
        yield Told(at, done or 0, of or 0, left, printed + bisect_left(outcomes, found.start()))


def estimates(told: Sequence[Told], end: float) -> dict[str, float]:
    """How far the estimates at one, two and three quarters of the submissions were off, as parts of the time left.

    Raises:
        AssertionError: the bar did not come to its end, or had no estimate there.
    """
    total = told[-1].of
    assert told[-1].done >= total - 1, f"the progress bar ended at {told[-1].done} of {total}"
    off = {}
    for quarter in (1, 2, 3):
        first = next(one for one in told if one.done >= quarter * total / 4)
        assert first.left is not None, f"there was no estimate at {first.done} of {total}"
        off[f"{quarter}/4"] = (first.left - (end - first.at)) / (end - first.at)
    return off


def steps_back(told: Sequence[Told]) -> list[tuple[Told, Told]]:
    """Where the bar went backwards, or spoke of another number of submissions."""
    return [(one, other) for one, other in pairwise(told) if other.done < one.done or other.of != one.of]


def behind(told: Sequence[Told]) -> list[Told]:
    """Where the bar counted fewer submissions than had been printed as graded."""
    return [one for one in told if one.done < one.printed]


def quarters(samples: Sequence[tuple[float, int]]) -> list[float]:
    """The medians of what was taken in each quarter of the time."""
    end = samples[-1][0]
    return [
        statistics.median([size for at, size in samples if number * end / 4 <= at <= (number + 1) * end / 4])
        for number in range(4)
    ]


def memory_of(process: psutil.Process) -> int:
    """Bytes that a process and all below it take, what they share counted once."""
    taken = 0
    with suppress(psutil.NoSuchProcess):  # all is over
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # it ended meanwhile
                taken += each.memory_full_info().pss
    return taken


def grade(course: Course, jobs: int) -> tuple[float, list[Told], list[tuple[float, int]]]:
    """Run `fxopt grade` in a terminal; the seconds, what the bar said, and samples of seconds and bytes.

    Raises:
        AssertionError: it ended with another exit code than 0.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-W", "ignore", "-m", "fxopt_workbench.cli", "grade", "--jobs", str(jobs)]
    terminal = {"TERM": "xterm", "COLUMNS": "160"}
    environment = {**os.environ, **terminal, "FXOPT_ROOT": str(course.root), "PYTHONPATH": str(ROOT)}
    started = time.monotonic()
    grader = psutil.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, cwd=course.root)
    os.close(theirs)
    told: list[Told] = []
    samples: list[tuple[float, int]] = []
    rest = tail = b""
    printed = 0
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append((time.monotonic() - started, memory_of(grader)))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that nobody holds the other end any more
            break
        if not piece:
            break
        tail = (tail + piece)[-4096:]
        *whole, rest = (rest + piece).rpartition(b"\r")
        said = b"".join(whole).decode(errors="replace")
        told.extend(readings(said, time.monotonic() - started, printed))
        printed += len(OUTCOME.findall(CONTROL.sub("", said)))
    code = grader.wait()
    seconds = time.monotonic() - started
    over.set()
    watching.join()
    os.close(ours)
    assert code == 0, f"fxopt grade ended with {code}: {CONTROL.sub('', tail.decode(errors='replace'))}"
    return seconds, told, samples


def expected(task_name: str, answer: str) -> str:
    """What a verdict on an answer must be: a status, or the misconception that a wrong answer documents."""
    if answer == "blank":
        return "not written"
    if not answer.startswith("wrong/"):
        return "passed"
    return documented(find_task(task_name).folder / f"{answer}.py")[0]


def compare(course: Course, made: Sequence[Generated], report: Report) -> None:
    """Compare every verdict with what it has to be."""
    with VerdictStore(course.database) as store:
        verdicts = {(one.student, one.notebook): one for one in store.latest()}
    found = {
        (student, task.task): task.misconceptions[0] if task.misconceptions else task.status
        for (student, _), verdict in verdicts.items()
        for task in verdict.tasks
    }
    for one in made:
        for task, answer in one.answers.items():
            wanted, came = expected(task, answer), found.get((one.student, task), "no verdict")
            report.verdicts += 1
            if came != wanted:
                report.wrong.append(f"{one.student} / {task}: {answer} came to {came!r} instead of {wanted!r}")


def make_class(folder: Path, students: int, unit: str, seed: int = 0) -> tuple[Course, list[Generated]]:
    """A course with the unit, and what made-up students handed in."""
    for kind in ("solutions", "curriculum"):
        shutil.copytree(ROOT / kind / unit, folder / kind / unit)
    shutil.copy(ROOT / "Week1.md", folder)
    (folder / "workspace").mkdir()
    course = Course(folder)
    return course, list(generate(course, students, unit, seed))


def run(folder: Path, students: int, unit: str, jobs: int, seed: int = 0) -> Report:
    """Make a class, grade it, and say what it came to."""
    course, made = make_class(folder, students, unit, seed)
    report = Report(students)
    report.seconds, told, samples = grade(course, jobs)
    report.memory = quarters(samples)
    compare(course, made, report)
    report.back = [f"{one} then {other}" for one, other in steps_back(told)]
    report.back += [f"behind: {one}" for one in behind(told)]
    report.estimates = estimates(told, report.seconds)
    return report


def main() -> None:
    """The long run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--students", type=int, default=1000)
    parser.add_argument("--unit", default="day0_start")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fxopt-class-") as folder:
        report = run(Path(folder), arguments.students, arguments.unit, arguments.jobs, arguments.seed)
    found: dict[str, Any] = asdict(report)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    memory = ", ".join(f"{taken / 2**30:.2f}" for taken in report.memory)
    off = ", ".join(f"{part} {value:+.0%}" for part, value in report.estimates.items())
    print(
        f"{report.students} submissions of {arguments.unit} with {arguments.jobs} jobs in {report.seconds:.0f} s; "
        f"{report.verdicts} verdicts, {len(report.wrong)} other than wanted; GiB by quarter of the time: {memory}; "
        f"time left was off at {off}"
    )
    print("\n".join([*report.wrong[:20], *report.back[:20]]))
    assert not report.back, "the progress bar went backwards, or was behind what was printed"
    assert not report.wrong, "verdicts are not what they have to be"
    assert report.memory[3] <= GROWTH * report.memory[1], "memory grows with the number of submissions"
    assert all(abs(value) <= ESTIMATE for value in report.estimates.values()), "the time left was wrong"


if __name__ == "__main__":
    main()
