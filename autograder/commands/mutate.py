"""`fxopt mutate`: break right answers by program, and see whether the judges notice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from autograder.commands.refusal import check_output
from fxopt_workbench.files import write_whole
from fxopt_workbench.tables import Table

if TYPE_CHECKING:
    from autograder.mutation.results import TaskMutation

CANNOT = 2
"""Exit code for bad input: one line says what, and nothing was changed."""


def mutate(
    tasks: Annotated[list[str] | None, typer.Argument(help="Only these tasks, or units such as day2.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write every mutant as JSON.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="With how many secrets hidden cases are drawn.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes grade at once; each takes about 1 GiB.")] = 1,
    record: Annotated[bool, typer.Option("--record", help="Enter the counts into the committed table.")] = False,
) -> None:
    """Mutate every right answer of every task and grade the mutants: none may pass, unless a reason is written.

    A mutant that passes is a gap in the task's cases. Write a case that kills it; or, where it is a right answer too,
    say why in `equivalent.toml` beside the task. What was graded before is remembered in the course's records. Exit
    code 1 when mutants survive, or are killed with some seeds only.
    """
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.judges import JudgeError
    from autograder.course.tasks import UnknownTaskError
    from autograder.grading.view import SandboxError
    from autograder.mutation import recorded
    from autograder.mutation.running import SEEDS
    from autograder.mutation.running import mutate as run

    check_output("--json", json_path)
    console = Console(soft_wrap=True)
    results: list[TaskMutation] = []
    try:
        if record and seeds != SEEDS:
            raise ValueError(f"--record --seeds {seeds}: the committed table is made with {SEEDS} seeds")
        course = find_course()
        for result in run(course, _named(tasks or []), seeds=seeds, jobs=jobs):
            results.append(result)
            counts = ", ".join(f"{count} {name}" for name, count in result.counts().items())
            known = f"; {result.cached} known before" if result.cached else ""
            console.print(f"{result.task}: {counts} ({result.seconds:.0f} s{known})", highlight=False)
            for line in _off(result):
                console.print(f"  {escape(line)}", highlight=False)
            if record:
                recorded.record(course, [result], seeds)
            if json_path is not None:  # after each task: a run that is ended has told what it found
                content = json.dumps([one.to_json() for one in results], indent=1, ensure_ascii=False)
                write_whole(json_path, content)
    except (NoCourseError, UnknownTaskError, ValueError, SandboxError, JudgeError) as error:
        Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(str(error))}")
        raise typer.Exit(CANNOT) from None
    _print(results, Console())
    raise typer.Exit(0 if all(result.ok for result in results) else 1)


def _named(names: list[str]) -> list[str]:
    """Names of tasks, in the order of the units; a unit stands for its tasks, and nothing for all."""
    from autograder.course.task import UNITS
    from autograder.course.tasks import all_tasks, find_task

    wanted = {task.name for task in all_tasks() if task.unit in names or not names}
    wanted |= {find_task(name).name for name in names if name not in UNITS}
    return [task.name for task in all_tasks() if task.name in wanted]


def _off(result: TaskMutation) -> list[str]:
    lines = [f"survived: {row.mutant.described()}" for row in result.of("survivor")]
    lines += [f"some seeds: {row.mutant.described()} ({row.verdict.by})" for row in result.of("some seeds")]
    return [*lines, *(f"problem: {problem}" for problem in [*result.problems, *result.false_claims])]


def _print(results: list[TaskMutation], console: Console) -> None:
    """One line a task, and the sum."""
    names = list(results[0].counts()) if results else []
    rows = [(result.task, *(str(count) for count in result.counts().values())) for result in results]
    sums = [str(sum(result.counts()[name] for result in results)) for name in names]
    console.print(Table("Mutants of right answers", ("task", *names), [*rows, ("all", *sums)]))
    seconds, count = sum(result.seconds for result in results), sum(len(result.rows) for result in results)
    if count:
        console.print(f"{seconds / count:.2f} s a mutant ({seconds:.0f} s for {count})")
