"""How nbgrader grades with our worker and judge: classes named in its configuration (`course.course_config`).

nbgrader's command line, its form grader and `fxopt grade` all read that configuration, so that they share one
grading path. Imports no torch.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.course.converting import TellsWhy
from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.rules_file import RulesError, read_rules
from autograder.course.shown_outputs import handed_in_outputs
from autograder.exchange.markup import with_code
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import NotebookOutcome
from autograder.grading.work import InfrastructureError
from autograder.records.admission import reason_to_keep
from autograder.records.intake import (
    PROBLEMS_KEY,
    HandedIn,
    IntakeError,
    handed_in,
    read_submission,
    rebuilt,
    take_in,
)
from autograder.records.lock import CourseLockedError, course_lock
from autograder.records.recording import NOT_GRADED, Judged, judge_here, note_receipt
from autograder.records.verdicts import VerdictStore
from fxopt_workbench.files import write_whole


class AutogradeReceived(TellsWhy, Autograde):
    """nbgrader's autograding, of submissions as `intake` rebuilt them and of nothing else in a learner's folder.

    What is judged before comes in by `judged`; anything else (in nbgrader's own command and form grader) is judged
    here. Either way nothing of an earlier grade is removed before the new one is known.
    """

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.judged: dict[tuple[str, str], Judged] = {}
        self._not_graded: list[str] = []
        self._submissions: dict[tuple[str, str], tuple[HandedIn, dict[str, NotebookNode]]] = {}

    def start(self) -> None:
        """As nbgrader's, while no other process grades this course."""
        course = Course(Path(self.course_root))
        try:
            with course_lock(course):
                super().start()
        except CourseLockedError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None

    @property
    def _input_directory(self) -> str:
        course = Course(Path(self.course_root))
        return str(course.received.relative_to(course.records) if self._sanitizing else super()._input_directory)

    def init_notebooks(self) -> None:
        """Take in every submission that was asked for, then find the notebooks among what was taken in."""
        course = Course(Path(self.course_root))
        if self.judged:
            for each in self.judged.values():
                take_in(course, each.submission, each.notebooks)
        else:
            try:
                self._rules = read_rules(course)
            except RulesError as error:
                self.log.error(str(error))
                raise NbGraderException(str(error)) from None
            for student, unit in handed_in(course):
                if fnmatchcase(student, self.coursedir.student_id) and fnmatchcase(unit, self.coursedir.assignment_id):
                    try:
                        submission = read_submission(course, student, unit)
                    except IntakeError as error:
                        self.log.error(str(error))
                        continue
                    notebooks = rebuilt(course, submission)
                    take_in(course, submission, notebooks)
                    self._submissions[student, unit] = submission, notebooks
        super().init_notebooks()

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission is to be graded: then it is judged now, unless it was before."""
        key = student_id, assignment_id
        if key not in self.judged:
            if not self._is_due(assignment_id, student_id):
                return False
            course = Course(Path(self.course_root))
            why = self._kept_because(course, self._submissions[key][0])
            if why:
                return self._left(student_id, assignment_id, why)
            try:
                self.judged[key] = judge_here(course, *self._submissions[key])
            except InfrastructureError as error:
                return self._left(student_id, assignment_id, NOT_GRADED.format(reason=error))
        return super().init_destination(assignment_id, student_id)

    def _kept_because(self, course: Course, submission: HandedIn) -> str:
        """Why a submission is not graded by the rules of `course.toml`, or `""`; it is noted and kept then."""
        student, unit = submission.folder.student, submission.folder.unit
        with VerdictStore(course.database) as store:
            terms = self._rules.for_student(student, unit)
            why = reason_to_keep(terms, submission, store.attempts(student, unit))
            if why:
                note_receipt(store, course, submission)
        return why

    def _left(self, student_id: str, assignment_id: str, why: str) -> bool:
        """Note that a submission is not graded; its earlier grade stays."""
        # Not raised here: nbgrader would remove what was graded before.
        self._not_graded.append(f"{student_id} / {assignment_id}: {why}")
        self.log.error(self._not_graded[-1])
        return False

    def convert_notebooks(self) -> None:
        """As nbgrader's; at the end it says of what was not graded, which nbgrader would take for a success.

        Raises:
            NbGraderException: something was not graded; everything else was.
        """
        self._not_graded.clear()
        super().convert_notebooks()
        if self._not_graded:
            raise NbGraderException("; ".join(self._not_graded))

    def _is_due(self, assignment_id: str, student_id: str) -> bool:
        """Whether nbgrader would grade it; asking nbgrader itself removes what was graded before."""
        graded = Path(self._format_dest(assignment_id, student_id))
        if self.force or not graded.exists():
            return True
        source = self._format_source(assignment_id, student_id)
        new, old = (self.coursedir.get_existing_timestamp(str(folder)) for folder in (source, graded))
        return new is not None and old is not None and new > old

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Grade a notebook as it was taken in, without a pass of nbgrader's that writes it sanitised first."""
        self.exporter._preprocessors = []
        for preprocessor in self.autograde_preprocessors:
            self.exporter.register_preprocessor(preprocessor)
        self._kept(BaseConverter.convert_single_notebook, self, notebook_filename)


def grade_what_was_received() -> None:
    """Make nbgrader's own command and its form grader autograde as `fxopt grade` does; they have no setting for it."""
    from nbgrader.apps import api, autogradeapp

    for module in (api, autogradeapp):
        module.Autograde = AutogradeReceived


class GradeByJudge(NbGraderPreprocessor):
    """Takes the place of nbgrader's `Execute`: the learner's cells ran in the sandbox, the judge gave the grade."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Take the outcome of one notebook that was taken in, which is known by now; fills the outputs of its cells."""
        course = Course(Path(self.course_root))
        names = resources["nbgrader"]
        nb.metadata.pop(PROBLEMS_KEY, None)
        converter = self.parent.parent  # this belongs to an exporter, and that to the converter
        if not isinstance(converter, AutogradeReceived):
            raise TypeError("this grades only behind AutogradeReceived: call `grade_what_was_received` first")
        judged = converter.judged[names["student"], names["assignment"]]
        outcome = judged.outcomes[names["notebook"]]
        content = judged.submission.contents[names["notebook"]]
        fill_outputs(nb, outcome, handed_in_outputs(content) if isinstance(content, bytes) else {})
        write_outcome(course, names["student"], names["assignment"], outcome)
        return nb, resources


def fill_outputs(
    notebook: NotebookNode, outcome: NotebookOutcome, shown: Mapping[str, list[dict[str, Any]]] | None = None
) -> None:
    """Put points and messages below the checks, and what the learner's cells printed below these.

    Args:
        notebook: the notebook, whose cells are changed.
        outcome: what it came to.
        shown: what its cells showed when it was handed in, for those that grading did not run.
    """
    by_task = {task.task: task for task in outcome.tasks}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        name = grade_id(cell)
        if name in by_task:
            cell.outputs = task_outputs(by_task[name])
        elif cell.metadata.get("nbgrader", {}).get("grade"):
            # Without output nbgrader would give all the points.
            missing = TaskOutcome(name or "", name or "", "error", ["Not graded: there is no task of this name."])
            cell.outputs = task_outputs(missing)
        else:
            ran = outcome.outputs.get(name or cell["id"])
            outputs = (shown or {}).get(cell["id"], []) if ran is None else ran
            cell.outputs = [nbformat.from_dict(output) for output in outputs]
    if outcome.problems:
        listed = "\n".join(f"- {problem}" for problem in outcome.problems)
        text = f"**About this notebook**\n\n{listed}"
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id="fxopt-problems"))


def task_outputs(task: TaskOutcome) -> list[NotebookNode]:
    """Output of a check cell: messages as HTML; as plain text the points, which is where nbgrader reads them."""
    head = f"{task.status}: {task.points:g} of {task.max_points:g} points"
    lines = task.messages or ["All visible and hidden cases pass."]
    body = "".join(f"<p>→ {with_code(line)}</p>" for line in lines)
    data = {"text/plain": f"{task.points:g}", "text/html": f"<p><b>{html.escape(head)}</b></p>{body}"}
    told = {"title": task.title, "status": task.status}  # for the list at the head of the feedback page
    return [nbformat.v4.new_output("execute_result", data=data, metadata=told, execution_count=None)]


def outcome_file(course: Course, student: str, unit: str, notebook: str) -> Path:
    """Where the latest outcome of one submitted notebook is recorded."""
    return course.records / "outcomes" / student / unit / f"{notebook}.json"


def write_outcome(course: Course, student: str, unit: str, outcome: NotebookOutcome) -> None:
    """Record an outcome at once and whole, so that a grading run that is killed later loses nothing."""
    path = outcome_file(course, student, unit, outcome.notebook)
    values = outcome.to_json() | {
        "student": student,
        "unit": unit,
        "graded_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_whole(path, json.dumps(values, indent=1))
