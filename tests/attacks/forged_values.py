"""How much of a task could be forged: wrong answers whose probe says all that it says of the right one.

Of a task that rests on an artefact the graphs are left as the wrong answer made them, and everything else that
travels, numbers, words and tensors, is taken from the right answer: as if the learner's code had written it there. What
the judge then lets through rests on what was seen inside the learner's process alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import random
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from autograder.authoring.gate import documented
from autograder.course.course import Course
from autograder.course.judges import follow_up, hidden_cases, judge_case, visible_cases
from autograder.course.notebooks import SKIP_TAG, grade_id
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks
from autograder.exchange.evidence import Case, Evidence

ANSWERS = {
    "build_mlp": ("traced",),
    "stop_recompilations": (
        "counted calls",
        "counted shapes",
        "earlier runs leak in",
        "recompilations only",
        "wrong count",
    ),
    "fold_constants": ("folded a written buffer",),
    # New weights by the formula that was asked for, of weights that the judge made.
    "fold_batchnorm": ("wrong algebra",),
    "exportable_control_flow": ("most_steps of another model",),
    # Tokens, and what a comparison says of programs that the judge made.
    "text_to_bert": (
        "no tensors",
        "mask of ones",
        "texts cut short",
        "split at blanks",
        "too long for the model",
        "padded to the limit",
        "no special tokens",
        "compared with itself",
        "no float",
        "looked at one output only",
        "mean instead of the greatest",
        "forgot the sign",
    ),
    # A report, every figure of which the judge computes from its own stopwatch and from the graph.
    "pipeline": (
        "capture ended everything",
        "mean instead of median",
        "minimum instead of median",
        "warm-up counted",
        "wrong number of operations",
    ),
}
"""Of tasks that rest on artefacts what is an answer, is found on hidden cases alone, or cannot be had while graded."""

AS_VALUES = {"static_graph": ("answers", "nodes", "references")}
"""Of tasks whose artefact travels as values which these are: the judge runs them."""

COURSE = Course(Path(__file__).resolve().parents[2])


def cells_of(task: Task) -> dict[str, str]:
    """Sources of the solution's cells by id, without those that grading leaves out."""
    solution = read_source(COURSE.sources_of(UNITS[task.unit]) / f"{task.notebook}.py")
    kept = [cell for cell in solution.cells if SKIP_TAG not in cell.metadata.get("tags", ())]
    return {name: cell.source for cell in kept if cell.cell_type == "code" and (name := grade_id(cell))}


@cache
def _before(task: Task) -> dict[str, Any]:
    """What the cells before the answer define, in the solution."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    checks = {other.name for other in all_tasks()}
    for name, source in cells_of(task).items():
        if name == task.answer_id:
            break
        if name in checks or not _is_python(source):
            continue
        with contextlib.suppress(Exception), _silent():
            exec(compile(source, "<cell>", "exec"), namespace)
    return namespace


def answers_to(task: Task, answer: str) -> list[Any]:
    """The names that an answer defines, after the cells that come before it in the solution."""
    namespace = dict(_before(task))
    exec(compile(answer, "<answer>", "exec"), namespace)
    return [namespace[name] for name in task.provides]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        warnings.simplefilter("ignore")
        yield


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def observed(task: Task, case: Case, answers: list[Any]) -> Evidence | None:
    """What the probe sees; `None` where the answer raises."""
    visible = __import__(task.module + ".visible", fromlist=["probe"])
    torch.manual_seed(0)
    random.seed(0)
    try:
        with _silent():
            evidence: Evidence = Evidence.from_message(*visible.probe(case, *answers).to_message())
            if task.fresh and (more := follow_up(task, case, evidence)) is not None:
                evidence = Evidence.from_message(*visible.fresh(more).to_message())
    except Exception:  # wrong answers raise anything
        return None
    return evidence


def _observed(task: Task, case: Case, source: str) -> Evidence | None:
    try:
        return observed(task, case, answers_to(task, source))
    except Exception:  # so does what defines them
        return None


def forged(task: Task) -> Iterator[tuple[str, str, bool]]:
    """For each wrong answer its name, its misconception, and whether forged values would let it through all cases."""
    cases = [*visible_cases(task), *hidden_cases(task, "forged values")]
    right = [observed(task, case, answers_to(task, cells_of(task)[task.answer_id])) for case in cases]
    for path in sorted((task.folder / "wrong").glob("*.py")):
        source, misconception = path.read_text(), documented(path)[0]
        through = True
        for case, ours in zip(cases, right, strict=True):
            assert ours is not None, f"{task.name}: the right answer raises"
            if through:
                theirs = _observed(task, case, source)
                through = theirs is not None and _believed(task, case, ours, theirs)
        yield path.stem, misconception, through


def _believed(task: Task, case: Case, ours: Evidence, theirs: Evidence) -> bool:
    mixed = Evidence(ours.values, ours.tensors, theirs.graphs)
    mixed.values = mixed.values | {name: theirs.values[name] for name in AS_VALUES.get(task.name, ())}
    if task.instrument:  # its record lies outside
        mixed.values = mixed.values | {"seen": theirs.values.get("seen", [])}
    if task.fresh:  # what came back from the fresh process was computed where the learner's code was not
        mixed = Evidence(theirs.values, theirs.tensors, theirs.graphs)
    try:
        return judge_case(task, case, mixed, hidden=False).passed
    except Exception:  # as in a grade: what cannot be read is not believed
        return False


def main() -> None:
    """Print what could be forged in each task that rests on artefacts; an error where the table does not say so."""
    wanted, unknown = sys.argv[1:], False
    for task in all_tasks():
        if task.evidence != "artefact" or (wanted and task.name not in wanted):
            continue
        found = list(forged(task))
        through = {misconception for _, misconception, passed in found if passed}
        # Answers (numbers that the judge computes anew) travel as values, too, and tracers are hollow while graded.
        more = through - set(task.measured) - set(ANSWERS.get(task.name, ()))
        print(f"{task.unit} {task.name}: {sum(passed for *_, passed in found)} of {len(found)} through", end="; ")
        print(f"not in the table: {sorted(more) or 'none'}", flush=True)
        unknown = unknown or bool(more)
    sys.exit(unknown)


if __name__ == "__main__":
    main()
