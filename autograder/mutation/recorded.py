"""What the last full run came to, task by task: `recorded.json`, which is committed. Imports no torch.

Whoever changes a task runs `fxopt mutate TASK --record`; the tests try the tasks whose content is not the recorded one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autograder.authoring.contents import content_digest, operators_digest
from autograder.course.course import Course
from autograder.course.task import Task
from autograder.course.tasks import all_tasks, find_task
from autograder.mutation.results import TaskMutation
from fxopt_workbench.files import write_whole

FILE = Path(__file__).with_name("recorded.json")


def recorded() -> dict[str, dict[str, Any]]:
    """By task: `content` and `operators` (digests), `counts`, `survivors` and `some seeds` (described), `seconds`."""
    return json.loads(FILE.read_text())["tasks"] if FILE.exists() else {}


def record(course: Course, results: Iterable[TaskMutation], seeds: int) -> None:
    """Enter full results in place of the tasks' earlier ones; tasks that there are no more go.

    Raises:
        ValueError: a result has problems that make its counts worth nothing.
    """
    tasks = recorded()
    for result in results:
        if result.problems or not result.rows:
            what = "; ".join(result.problems) or "it has no mutants"
            raise ValueError(f"{result.task} is not recorded: {what}")
        tasks[result.task] = {
            "content": content_digest(course, find_task(result.task)),
            "operators": operators_digest(),
            "seeds": seeds,
            "counts": result.counts(),
            "seconds a mutant": round(result.seconds / len(result.rows), 2),
            "survivors": [row.mutant.described() for row in result.of("survivor")],
            "some seeds": [row.mutant.described() for row in result.of("some seeds")],
        }
    ordered = {task.name: tasks[task.name] for task in all_tasks() if task.name in tasks}
    write_whole(FILE, json.dumps({"tasks": ordered}, indent=1, ensure_ascii=False) + "\n")


def changed(course: Course) -> list[Task]:
    """The tasks whose content, or whose mutants, are not the recorded ones."""
    known, operators = recorded(), operators_digest()

    def same(task: Task) -> bool:
        entry = known.get(task.name, {})
        return entry.get("operators") == operators and entry.get("content") == content_digest(course, task)

    return [task for task in all_tasks() if not same(task)]
