"""What a learner has verified so far: checks passed in the notebook, and tasks passed in a grade.

Imports no torch. One line of JSON is appended per event, so a crash can lose at most the last line.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from autograder.course.course import NoCourseError, find_course
from autograder.course.task import Task

RECORD = Path(".fxopt") / "progress.jsonl"


def record_file(workspace: Path) -> Path:
    """The file in a workspace that holds the events."""
    return workspace / RECORD


def record_check(task: Task, status: str) -> Path | None:
    """Note the outcome of a check in the workspace that this process runs in, and return that workspace.

    Elsewhere nothing is noted, and the answer is `None`.
    """
    try:
        workspace = find_course().workspace
    except NoCourseError:
        return None
    if not Path.cwd().resolve().is_relative_to(workspace.resolve()):
        return None
    append_event(workspace, "check", task.name, status)
    return workspace


def append_event(workspace: Path, kind: str, task: str, status: str) -> None:
    """Append one event (`check` or `grade`) to the workspace's record."""
    path = record_file(workspace)
    path.parent.mkdir(parents=True, exist_ok=True)
    event = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": kind,
        "task": task,
        "status": status,
    }
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")


def latest(workspace: Path) -> dict[tuple[str, str], str]:
    """The latest status for each (kind, task). Lines that are no events (a write cut short) are passed over."""
    path = record_file(workspace)
    found: dict[tuple[str, str], str] = {}
    if not path.is_file():
        return found
    for line in path.read_text().splitlines():
        try:
            event = json.loads(line)
            found[event["kind"], event["task"]] = event["status"]
        except (ValueError, KeyError, TypeError):
            continue
    return found
