"""Kills the processes of grading at random moments, and compares the gradebook with an undisturbed one.

    python tests/attacks/kills.py --submissions 60 --kills 100 --jobs 2 [--postgresql] [--seed 1]

grades day 0 for real. Killed are the grader, the processes of `--jobs`, judges, workers, the processes that run graphs,
and the database's server (of SQLite the grader is the writer itself); a second grader is started meanwhile, too. What
is tried in `make test` is the same with a stand-in for worker and judge (`test_kills.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "autograder")]

from databases import PostgresServer  # noqa: E402

VICTIMS = {
    "process": "multiprocessing.spawn",
    "judge": "autograder.grading.judging",
    "worker": "autograder.learner_side.warm",
    "graph server": "autograder.grading.graph_server",
}
"""Kinds of processes below the grader, by what is in their command lines."""

ORPHAN = re.compile(
    r'Traceback \(most recent call last\):\n  File "<string>", line 1, in <module>\n'
    r"(  .*\n)*EOFError: Ran out of input\n"
)
"""What Python itself prints of a process whose parent is killed while it hands over what the process is to do."""

RUNS = 200
"""How often grading is started at most before it counts as stuck."""


@dataclass
class Report:
    """What was done and found.

    Attributes:
        killed: how often which kind of process was killed.
        refused: how often a second grader was refused with one line.
        runs: how often grading was started.
        seconds: wall time.
        waited: how often a run told that grading itself failed on a submission.
    """

    killed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    runs: int = 0
    seconds: float = 0.0
    waited: int = 0


def disturb(
    command: Sequence[str],
    environment: dict[str, str],
    kills: int,
    longest_pause: float,
    dice: random.Random,
    server: PostgresServer | None = None,
) -> Report:
    """Grade, killing what grades at random moments, until all is graded and nothing is left to kill.

    Args:
        command: the command line of `fxopt`.
        environment: its environment.
        kills: how many processes are killed.
        longest_pause: most seconds between two kills.
        dice: where moments and victims come from.
        server: the gradebook's server, which is killed, too.
    """
    report, started = Report(), time.monotonic()
    while report.runs < RUNS:
        left = kills - report.killed.total()
        # Once all is graded there is nothing to disturb: then it is graded again.
        force = ["--force"] if report.runs and left else []
        report.runs += 1
        grader = psutil.Popen([*command, *force], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = ""
        while left > 0:
            time.sleep(dice.uniform(0.05, longest_pause))
            if grader.poll() is not None:
                break
            if dice.random() < 0.05:
                report.refused += second_is_refused(command, environment, grader)
            kind = kill_one(grader, dice, server)
            if kind:
                report.killed[kind] += 1
                left -= 1
        said = grader.communicate()[0].decode()
        if grader.returncode == -signal.SIGKILL:
            said = ORPHAN.sub("", said)
        assert "Traceback" not in said, said
        report.waited += said.count("grading itself failed")
        if not left and grader.returncode == 0:
            report.seconds = time.monotonic() - started
            return report
        assert grader.returncode in (0, 1, 2, -signal.SIGKILL), (grader.returncode, said)
    raise AssertionError(f"grading came to no end in {RUNS} runs; the last one said: {said}")


def second_is_refused(command: Sequence[str], environment: dict[str, str], grader: psutil.Popen) -> bool:
    """Start another grader; whether it met the first one, which it must then leave alone."""
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if grader.poll() is not None:
        return False
    refused = second.returncode == 2 and "another grader is at work on this course" in second.stderr
    # Before the first one had the course, the second one may have graded it all.
    assert refused or second.returncode in (0, 1), second.stdout + second.stderr
    return refused


def kill_one(grader: psutil.Popen, dice: random.Random, server: PostgresServer | None) -> str | None:
    """Kill one process of a kind that is chosen first; the kind."""
    found: dict[str, list[psutil.Process]] = {"grader": [grader]}
    try:
        for process in grader.children(recursive=True):
            line = " ".join(process.cmdline())
            for kind, part in VICTIMS.items():
                if part in line:
                    found.setdefault(kind, []).append(process)
    except psutil.NoSuchProcess:
        pass
    kind = dice.choice([*found, *(["database"] if server is not None else [])])
    if kind == "database":
        assert server is not None
        server.kill()
        server.start()
        return kind
    try:
        dice.choice(found[kind]).kill()
    except psutil.NoSuchProcess:
        return None
    return kind


def left_behind(scratch: Path) -> tuple[list[Path], list[str]]:
    """Files in the folder for temporary ones, and processes that know it, after some seconds to end in."""
    end = time.monotonic() + 20
    while True:
        processes = []
        for process in psutil.process_iter(["pid"]):
            try:
                said = [*process.cmdline(), *process.environ().values()]
            except psutil.Error:
                continue
            if process.pid != os.getpid() and any(str(scratch) in part for part in said):
                processes.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
        if not processes or time.monotonic() > end:
            return sorted(scratch.rglob("*")), processes
        time.sleep(0.2)


def compare(course_of: Callable[[Path], Any], arguments: argparse.Namespace) -> Report:
    """Grade one course undisturbed and another one with kills; their gradebooks must be equal."""
    dice = random.Random(arguments.seed)
    scratch = Path(tempfile.mkdtemp(prefix="kills-", dir="/tmp"))
    server = PostgresServer() if arguments.postgresql else None
    try:
        with tempfile.TemporaryDirectory(prefix="fxopt-kills-") as folder:
            found = []
            for name, kills in (("undisturbed", 0), ("disturbed", arguments.kills)):
                course = course_of(Path(folder) / name)
                further = {"FXOPT_SCRATCH": str(scratch)}
                if server is not None:
                    further["FXOPT_DATABASE"] = server.database()
                command = course.command("grade", "--jobs", str(arguments.jobs))
                report = disturb(command, course.environment(**further), kills, arguments.pause, dice, server)
                os.environ.update(further)
                found.append(course.records())
            assert found[0] == found[1], difference(*found)
            files, processes = left_behind(scratch)
            assert not files, files
            assert not processes, processes
            return report
    finally:
        os.environ.pop("FXOPT_DATABASE", None)
        os.environ.pop("FXOPT_SCRATCH", None)
        shutil.rmtree(scratch, ignore_errors=True)
        if server is not None:
            server.close()


def difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    """Where two records differ."""
    keys = sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))
    return "; ".join(f"{key}: {first.get(key)!r} undisturbed, {second.get(key)!r} disturbed" for key in keys[:5])


def main() -> None:
    """The long run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--pause", type=float, default=15.0, help="most seconds between two kills")
    parser.add_argument("--postgresql", action="store_true", help="a gradebook on a server, which is killed, too")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    from small_course import make_real_course

    report = compare(lambda folder: make_real_course(folder, arguments.submissions), arguments)
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(report.killed.items()))
    print(
        f"{report.killed.total()} kills ({kinds}) over {report.runs} runs of {arguments.submissions} submissions in "
        f"{report.seconds:.0f} s, {report.refused} second graders refused, {report.waited} submissions told to wait: "
        "the gradebook equals an undisturbed one, and nothing is left behind"
    )
    print(json.dumps({"killed": report.killed, "runs": report.runs, "seconds": report.seconds}))


if __name__ == "__main__":
    main()
