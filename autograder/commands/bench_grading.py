"""`fxopt bench grading`: how many submissions an hour are graded, beside stock nbgrader on the same notebooks.

Both sides start from their own throw-away copy of a course and from their own command line: starting up is in the
figure. Stock nbgrader runs its converters `autograde` and `generate_feedback` as they come, in one process; it executes
each notebook in a Jupyter kernel and tries no hidden case. Imports no torch.
"""

from __future__ import annotations

import copy
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import nbformat
import typer
from nbformat import NotebookNode
from rich.console import Console

from autograder.commands.refusal import check_output
from autograder.learner_side.confinement import adopt_orphans
from fxopt_workbench.tables import Table

ORPHANS_SECONDS = 10.0
"""How long processes that a command left behind may take to end."""

CONFIGURATION = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.course_id = "stock"
c.ClearSolutions.code_stub = {{"python": "raise NotImplementedError"}}
c.ExecutePreprocessor.timeout = 300
c.Execute.timeout = 300
"""
"""Of stock nbgrader: no more than it needs to find the course and to make its notebooks."""

ONE, TWO, CLUSTER, STOCK = "fxopt, 1 job", "fxopt, 2 jobs", "fxopt, cluster of 2", "stock nbgrader"

OURS = {ONE: ("--jobs", "1"), TWO: ("--jobs", "2"), CLUSTER: ("--cluster", "local:2")}
"""Options of `fxopt grade` for each run of ours."""


def grading(
    unit: Annotated[str, typer.Option(help="The assignment, a folder of curriculum/.")] = "day0_start",
    submissions: Annotated[int, typer.Option(min=1, help="How many students hand in the reference answers.")] = 30,
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write every figure as JSON.")] = None,
) -> None:
    """Grade the same submissions with one job, two, a local cluster of two, and with stock nbgrader (minutes)."""
    from autograder.course.course import NoCourseError, find_course

    check_output("--json", json_path)
    console = Console(soft_wrap=True)
    try:
        course = find_course()
        notebooks = _reference_notebooks(course, unit)
    except (NoCourseError, LookupError) as error:
        Console(stderr=True, soft_wrap=True).print(f"fxopt: {error}")
        raise typer.Exit(2) from None
    seconds: dict[str, float] = {}
    processor: dict[str, float] = {}
    phases: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="fxopt-bench-") as folder:
        for number, (name, options) in enumerate(OURS.items()):
            root = Path(folder) / f"ours{number}"
            _our_course(course.root, root, unit, notebooks, submissions)
            # As before every run: the gradebook knows the assignments.
            _run([sys.executable, "-c", _PREPARE], root)
            command = [sys.executable, "-m", "fxopt_workbench.cli", "grade", *options]
            seconds[name], processor[name] = _timed(command, root)
            outcomes = [json.loads(path.read_text()) for path in root.glob("course/outcomes/*/*/*.json")]
            _need_all_points(outcomes, submissions * len(notebooks))
            if name == ONE:
                phases = _phases(outcomes, seconds[ONE])
        root = Path(folder) / "stock"
        _stock_course(course, root, unit, notebooks, submissions)
        nbgrader = [sys.executable, "-m", "nbgrader"]
        _run([*nbgrader, "generate_assignment", unit], root)
        steps = [_timed([*nbgrader, command, unit], root) for command in ("autograde", "generate_feedback")]
        seconds[STOCK], processor[STOCK] = (sum(figures) for figures in zip(*steps, strict=True))
        pages = len(list(root.glob("feedback/*/*/*.html")))
        if pages != submissions * len(notebooks):
            raise RuntimeError(f"stock nbgrader wrote {pages} pages of feedback for {submissions} submissions")
    figures = figures_of(seconds, submissions, phases)
    stock, one = seconds[STOCK], seconds[ONE]
    result: dict[str, Any] = {
        "unit": unit,
        "submissions": submissions,
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "processor_seconds": processor,
    } | figures
    rows = [
        (name, f"{value:.1f}", f"{value / submissions:.2f}", f"{stock / value:.2f}", f"{processor[name]:.1f}")
        for name, value in seconds.items()
    ]
    heads = ("with", "s", "s each", "times stock", "processor s")
    console.print(Table(f"Grading {submissions} submissions of {unit}", heads, rows))
    parts = [(name, f"{value:.1f}", f"{100 * value / one:.0f} %") for name, value in phases.items()]
    console.print(Table("Where the time of one job goes", ("phase", "s", "share"), parts))
    console.print(
        f"ratio to stock nbgrader with 2 jobs: {result['ratio']:.2f}. If only the learners' code and the judge took "
        f"time, it would be {result['floor']['ratio']:.2f}; with nbgrader's gradebook, pages and command, "
        f"{result['floor_with_nbgrader']['ratio']:.2f}. With 2 jobs {result['scaling_from_one_to_two_jobs']:.2f} times "
        f"as fast as with 1; on a local cluster of 2 {1 + result['overhead_of_a_local_cluster']:.3f} times as long as "
        f"with 2 jobs (load average {result['load_average']:.1f})"
    )
    if json_path is not None:
        json_path.write_text(json.dumps(result, indent=1))


def figures_of(seconds: dict[str, float], submissions: int, phases: dict[str, float]) -> dict[str, Any]:
    """What the seconds of the four runs, of `submissions` each, come to.

    The floor is what must be done whatever else is made quicker: the learners' cells and the probes of both rounds, and
    the judge, shared by two processors without loss. The second floor has in it what nbgrader does besides (gradebook,
    pages, its command), which stays as long as nbgrader is what we build on. The start of warm processes is in neither.
    """
    stock, one, two = seconds[STOCK], seconds[ONE], seconds[TWO]
    floor = (phases["running"] + phases["judging"]) / 2
    with_nbgrader = floor + phases["gradebook, feedback, command"] / 2
    return {
        "seconds": seconds,
        "seconds_each": {name: value / submissions for name, value in seconds.items()},
        "phases_of_one_job": phases,
        "shares_of_one_job": {name: value / one for name, value in phases.items()},
        "floor": {"seconds_each": floor / submissions, "ratio": stock / floor},
        "floor_with_nbgrader": {"seconds_each": with_nbgrader / submissions, "ratio": stock / with_nbgrader},
        "ratio_one_job": stock / one,
        "scaling_from_one_to_two_jobs": one / two,
        "overhead_of_a_local_cluster": seconds[CLUSTER] / two - 1,
        "ratio": stock / two,
    }


_PREPARE = (
    "from autograder.course.course import find_course\nfrom autograder.records.gradebook import prepare_gradebook\n"
    "prepare_gradebook(find_course())"
)


def _reference_notebooks(course: Any, unit: str) -> dict[str, NotebookNode]:
    """The released notebooks of a unit with the reference answers in them."""
    from autograder.course.notebooks import grade_id
    from autograder.course.reading import read_notebook
    from autograder.course.sources import read_source
    from autograder.course.task import UNITS
    from autograder.course.tasks import all_tasks

    names = sorted({task.notebook for task in all_tasks() if UNITS.get(task.unit) == unit})
    if not names:
        raise LookupError(f"{unit!r} is not an assignment with exercises; there are {', '.join(UNITS.values())}")
    found = {}
    for name in names:
        notebook = read_notebook(course.curriculum / unit / f"{name}.ipynb")
        answers = {task.answer_id for task in all_tasks()}
        sources = {grade_id(cell): cell.source for cell in read_source(course.sources_of(unit) / f"{name}.py").cells}
        for cell in notebook.cells:
            if grade_id(cell) in answers:
                cell.source = sources[grade_id(cell)]
        found[name] = notebook
    return found


def _hand_in(folder: Path, unit: str, notebooks: dict[str, NotebookNode], submissions: int) -> None:
    for number in range(submissions):
        target = folder / f"student{number:03}" / unit
        target.mkdir(parents=True)
        for name, notebook in notebooks.items():
            nbformat.write(copy.deepcopy(notebook), target / f"{name}.ipynb")


def _our_course(source: Path, root: Path, unit: str, notebooks: dict[str, NotebookNode], submissions: int) -> None:
    from autograder.course.workspace import PAGES

    shutil.copytree(source / "solutions", root / "solutions", ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
    shutil.copytree(source / "curriculum", root / "curriculum")
    for page in PAGES:
        shutil.copy(source / page, root)
    _hand_in(root / "course" / "submitted", unit, notebooks, submissions)


def _stock_course(course: Any, root: Path, unit: str, notebooks: dict[str, NotebookNode], submissions: int) -> None:
    from autograder.course.sources import read_source

    root.mkdir()
    (root / "nbgrader_config.py").write_text(CONFIGURATION.format(root=str(root)))
    for name in notebooks:
        path = root / "source" / unit / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(read_source(course.sources_of(unit) / f"{name}.py"), path)
    _hand_in(root / "submitted", unit, notebooks, submissions)


def _run(command: list[str], root: Path) -> None:
    environment = os.environ | {"FXOPT_ROOT": str(root), "FXOPT_SEED": "bench"}
    environment.pop("FXOPT_DATABASE", None)
    # nbgrader starts the program `alembic`, which lies beside this Python but not necessarily on the path.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed: {(done.stdout + done.stderr)[-2000:]}")


def _timed(command: list[str], root: Path, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """Seconds by the clock, and of processor time with all processes below, which a busy machine changes little."""
    adopt_orphans()
    before, started = _processor_seconds(), clock()
    _run(command, root)
    seconds = clock() - started
    _wait_for_orphans()
    return seconds, _processor_seconds() - before


def _wait_for_orphans() -> None:
    """Wait for what the command left behind: only the time of processes that were waited for is known.

    Raises:
        RuntimeError: something of it runs on; its time would be missing in the figures.
    """
    end = time.monotonic() + ORPHANS_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < end:
            # `waitpid` knows no time limit of its own.
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        raise RuntimeError(f"a process that the command left behind still runs after {ORPHANS_SECONDS:g} s")


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _need_all_points(outcomes: list[dict[str, Any]], expected: int) -> None:
    """Speed counts only where every verdict is right: these are the reference answers."""
    lost = [task["task"] for outcome in outcomes for task in outcome["tasks"] if task["status"] != "passed"]
    if lost or len(outcomes) != expected:
        raise RuntimeError(f"{len(outcomes)} outcomes of {expected}; reference answers that failed: {', '.join(lost)}")


def _phases(outcomes: list[dict[str, Any]], total: float) -> dict[str, float]:
    """Seconds of each phase of all submissions; what is left is reading, the gradebook, feedback and the command."""
    names = ("starting", "running", "judging")
    found = {name: sum(outcome["phases"][name] for outcome in outcomes) for name in names}
    graded = sum(outcome["seconds"] for outcome in outcomes)
    found["processes and messages"] = max(0.0, graded - sum(found.values()))
    found["gradebook, feedback, command"] = max(0.0, total - graded)
    return found
