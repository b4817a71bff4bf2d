"""What the last full run of the gate came to, task by task: `gated.json`, which is committed. Imports no torch.

The same answers, cells, judges and graders come to the same verdicts. So the tests put to the graders what is not as it
was when it was recorded, and of the rest a sample; whoever changes a task or the graders runs `fxopt gate --record`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from autograder.authoring.contents import cells_of, digest, grading_digest, imports_of, modules_digest
from autograder.authoring.gate import GATE_SEED, GateResult, answers
from autograder.authoring.sentences import read_sentences, untied
from autograder.course.course import Course
from autograder.course.notebooks import cells_before_check
from autograder.course.reading import read_notebook
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task, tasks_of_notebook
from fxopt_workbench.files import write_whole

FILE = Path(__file__).with_name("gated.json")


def gated() -> dict[str, dict[str, Any]]:
    """By task: `digest`, `answers` (how many of each kind came to what they must) and `seconds`."""
    return json.loads(FILE.read_text())["tasks"] if FILE.exists() else {}


def gate_digest(course: Course, task: Task) -> str:
    """Everything that decides what the gate finds of a task.

    Its answers with the keys of its sentences, the cells that run before its check, the references that stand in for
    earlier tasks, all of our modules that any of this imports, and what decides how the task is graded.
    """
    tried = {
        f"{kind}/{path.name}": path.read_text()
        for kind in ("wrong", "right")
        for path in sorted((task.folder / kind).glob("*.py"))
    }
    cells = cells_before_check(_notebook(course.curriculum / UNITS[task.unit] / f"{task.notebook}.ipynb"), task)
    solution = cells_of(course.sources_of(UNITS[task.unit]) / f"{task.notebook}.py")
    answered = {other.answer_id for other in tasks_of_notebook(task.notebook)} & {cell["id"] for cell in cells}
    references = {name: source for name, source in solution.items() if name in answered}
    code = [*tried.values(), *(cell["source"] for cell in cells), *references.values()]
    ours = modules_digest({"autograder.authoring.gate"}.union(*map(_imports_of, code)))
    sentences = [asdict(sentence) for sentence in read_sentences(task)]
    machine = [sys.platform, version("transformers")]
    return digest([GATE_SEED, grading_digest(task), tried, sentences, cells, references, ours, machine])


_notebook = cache(read_notebook)
"""Read once in a process, as everything that a digest is made of."""


def _imports_of(source: str) -> frozenset[str]:
    """Our modules that an answer or a cell imports: none where it is not Python, as no answer has to be."""
    try:
        return imports_of(source)
    except SyntaxError:
        return frozenset()


def digests(course: Course) -> dict[str, str]:
    """The digest of each task, to be asked for before the gate runs: what changes meanwhile was not tried."""
    return {task.name: gate_digest(course, task) for task in all_tasks()}


def record(result: GateResult, digests: Mapping[str, str]) -> list[str]:
    """Enter each clean task in place of its earlier entry, and take out the others; one line for each of these.

    A task is not clean when an answer did not come to what it must, or a wrong one fails in no case that its sentence
    names. Entries of tasks that there are no more go.

    Args:
        result: what the gate found.
        digests: of the tasks as they were when it began.
    """
    tasks, lines = gated(), []
    for name in result.matrix():
        rows = [row for row in result.rows if row.task == name]
        failed = {row.answer: row.failed for row in rows if row.kind == "wrong"}
        off = [f"{row.kind} {row.answer}: {row.found}" for row in rows if not row.ok]
        off += untied(read_sentences(find_task(name)), failed)
        if off:
            tasks.pop(name, None)
            lines.append(f"{name} is not recorded: {'; '.join(off)}")
            continue
        tasks[name] = {
            "digest": digests[name],
            "answers": dict(Counter(row.kind for row in rows)),
            "seconds": round(sum(row.seconds for row in rows), 1),
        }
    ordered = {task.name: tasks[task.name] for task in all_tasks() if task.name in tasks}
    write_whole(FILE, json.dumps({"tasks": ordered}, indent=1) + "\n")
    return lines


def is_as_recorded(course: Course, task: Task) -> bool:
    """Whether the gate was clean over this task, as it is now, when that was recorded."""
    entry = gated().get(task.name, {})
    return entry.get("digest") == gate_digest(course, task) and entry.get("answers") == number_of_answers(task)


def number_of_answers(task: Task) -> dict[str, int]:
    """How many answers of each kind the gate tries on a task today."""
    return dict(Counter(answer.kind for answer in answers(task, "", "")))
