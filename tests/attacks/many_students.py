"""Hidden cases are drawn for each student: is the right answer right on those of everybody? Run by `make torture`.

python tests/attacks/many_students.py [--students N] [TASK …]
"""

from __future__ import annotations

import argparse
import sys
import time

from forged_values import answers_to, cells_of, observed

from autograder.course.judges import hidden_cases, judge_case
from autograder.course.task import Task
from autograder.course.tasks import all_tasks


def wrongly_refused(task: Task, students: int, first: int = 0) -> list[str]:
    """The cases of some students on which the right answer does not pass, with what the judge says."""
    answers = answers_to(task, cells_of(task)[task.answer_id])
    found = []
    for number in range(first, first + students):
        for case in hidden_cases(task, f"student {number}"):
            evidence = observed(task, case, answers)
            if evidence is None:
                found.append(f"student {number}, {case.name}: it raises")
                continue
            verdict = judge_case(task, case, evidence, hidden=False)
            found += [f"student {number}, {case.name}: {finding}" for finding in verdict.findings]
    return found


def main() -> None:
    """Try every task, and end with an error when one is unfair to somebody."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("tasks", nargs="*")
    given = parser.parse_args()
    unfair = False
    for task in all_tasks():
        if given.tasks and task.name not in given.tasks:
            continue
        started = time.monotonic()
        found = wrongly_refused(task, given.students, given.first)
        print(f"{task.unit} {task.name}: {len(found)} off ({time.monotonic() - started:.0f} s)", flush=True)
        for line in found[:5]:
            print(f"    {line}", flush=True)
        unfair = unfair or bool(found)
    sys.exit(unfair)


if __name__ == "__main__":
    main()
