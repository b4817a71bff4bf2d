"""From a submission to points, gradebook and feedback: the same by every way, once, and after a kill too."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from classroom import BLANK, DAY, RIGHT, TASK, Classroom, cell, outcome_of, stand_in, when_called
from nbgrader.api import Gradebook
from nbgrader.apps import api as nbgrader_api
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from autograder.course.course import course_config
from autograder.course.judges import hidden_cases
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.verdict import TaskOutcome
from autograder.grading import sandbox, work
from autograder.grading.view import SandboxError
from autograder.records import gradebook, nbgrader_plugin
from autograder.records.gradebook import publish_feedback, recorded_points

KEEPS_THE_LAST = when_called("self.graphs = []")

POINTS = 15.0


COMMAND = ("-m", "fxopt_workbench.cli")
STUBBED = (str(Path(__file__).with_name("stub_grader.py")),)
"""The command with a stand-in for worker and judge: what is told of points is the same, seconds earlier."""


def fxopt(
    classroom: Classroom, *arguments: str, command: tuple[str, ...] = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=classroom.course.workspace,
        env=os.environ | {"COLUMNS": "200", "NO_COLOR": "1"} | environment,
    )


def score(classroom: Classroom, who: str) -> float:
    found = recorded_points(classroom.course, who, DAY, TASK.notebook)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("passes", [True, False])
def test_an_answer_that_passes_a_grade_goes_into_the_learners_package(classroom: Classroom, passes: bool) -> None:
    classroom.hand_in(RIGHT if passes else KEEPS_THE_LAST)
    finished = fxopt(classroom, "grade", command=COMMAND if passes else STUBBED)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    saved = classroom.course.workspace / "my_fxopt" / f"{TASK.export}.py"
    assert ("Saved `GraphRecorder` to my_fxopt/graphs.py." in finished.stdout) == passes
    assert saved.is_file() == passes
    assert not passes or "class GraphRecorder" in saved.read_text()


def test_points_and_messages_of_four_students(classroom: Classroom) -> None:
    steals = when_called(
        "import sys\nframe = sys._getframe()\n"
        "while not hasattr(frame.f_locals.get('case'), 'parameters'): frame = frame.f_back\n"
        "case = frame.f_locals['case']\n"
        "if case.name.startswith('hidden'):\n"
        "    print(case.parameters, file=sys.__stderr__)\n    raise RuntimeError(case.parameters)"
    )
    students = {"right": RIGHT, "wrong": KEEPS_THE_LAST, "blank": BLANK, "thief": steals}
    for who, answer in students.items():
        classroom.hand_in(answer, who)
    finished = fxopt(classroom, "grade")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    graded = classroom.grade()
    expected = {"right": ("passed", POINTS), "wrong": ("wrong", 0.0), "blank": ("not written", 0.0)}
    for who, (status, points) in expected.items():
        outcome = outcome_of(graded[who])
        assert (outcome["status"], outcome["points"], outcome["max_points"]) == (status, points, POINTS)
        assert score(classroom, who) == points
        page = classroom.feedback(who)
        assert f"{status}: {points:g} of {POINTS:g} points" in page
        listed = page.partition('id="toc"')[2].partition("panel-body")[0]
        assert f"{TASK.title}</a>: {status} ({points:g} of {POINTS:g} points)" in listed
        assert f"{who} / {TASK.notebook}: {points:g} of" in finished.stdout
        for message in outcome["messages"]:
            assert message in finished.stdout
    assert "You kept only one of them" in classroom.feedback("wrong")
    assert "Not yet written" in classroom.feedback("blank")

    assert outcome_of(graded["thief"])["status"] == "wrong"
    records = [path for path in classroom.course.records.rglob("*") if path.is_file() and path.name != "seed"]
    for case in hidden_cases(TASK, classroom.course.seed_for("thief")):
        secret = str(case.parameters["seed"])
        assert secret not in finished.stdout + finished.stderr
        for path in records:
            assert secret.encode() not in path.read_bytes(), path


def test_the_form_grader_takes_the_same_path(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = count_runs(monkeypatch, work.grade_notebook)
    classroom.hand_in(RIGHT, "right")
    gradebook.prepare_gradebook(classroom.course)
    config = course_config(classroom.course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    monkeypatch.setattr(nbgrader_api, "Autograde", nbgrader_plugin.AutogradeReceived)
    result = api.autograde(DAY, "right", force=True, create=True)
    assert result["success"], result
    assert score(classroom, "right") == POINTS
    assert nbgrader_plugin.outcome_file(classroom.course, "right", DAY, TASK.notebook).is_file()
    assert runs == [TASK.notebook]
    # It also sees that a submission is newer than its grade.
    assert api.get_submission(DAY, "right")["autograded"]
    assert not api.get_submission(DAY, "right")["needs_manual_grade"]
    assert not _needs_autograde(api, "right")
    classroom.hand_in(RIGHT, "right")
    assert _needs_autograde(api, "right")


def _needs_autograde(api: NbGraderAPI, who: str) -> bool:
    return who not in set(api.get_autograded_students(DAY))


def count_runs(monkeypatch: pytest.MonkeyPatch, grade_notebook: Callable[..., Any] = stand_in) -> list[str]:
    """The notebooks that are graded from now on, in order."""
    runs: list[str] = []

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        runs.append(name)
        return grade_notebook(name, *arguments, **options)

    monkeypatch.setattr(work, "grade_notebook", counted)
    return runs


def test_only_what_is_new_is_graded(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = count_runs(monkeypatch)
    classroom.hand_in(KEEPS_THE_LAST)
    assert classroom.grade()["me"].anew
    assert len(runs) == 1
    again = classroom.grade()["me"]
    assert not again.anew
    assert len(runs) == 1
    assert outcome_of(again)["status"] == "wrong"

    classroom.hand_in(RIGHT)
    assert outcome_of(classroom.grade()["me"])["status"] == "passed"
    assert score(classroom, "me") == POINTS
    assert len(runs) == 2
    assert classroom.grade(force=True)["me"].anew
    assert len(runs) == 3


def test_the_same_notebook_handed_in_again_is_graded_again(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = count_runs(monkeypatch)
    for _ in range(2):
        classroom.hand_in(BLANK)
        assert classroom.grade()["me"].anew
    assert len(runs) == 2


KILLED_AFTER = {
    "the outcome": (nbgrader_plugin, "write_outcome"),
    "autograding": (nbgrader_plugin.AutogradeReceived, "start"),
    "the feedback": (gradebook.GenerateFeedbackOf, "start"),
}


@pytest.mark.parametrize("step", KILLED_AFTER)
def test_a_run_that_was_killed_is_made_up_for(classroom: Classroom, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    runs = count_runs(monkeypatch)
    classroom.hand_in(RIGHT, "first")
    assert classroom.grade()["first"].anew
    classroom.hand_in(RIGHT, "second")
    child = os.fork()
    if child == 0:
        owner, name = KILLED_AFTER[step]
        original = getattr(owner, name)

        def deadly(*arguments: Any) -> None:
            original(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(owner, name, deadly)
        try:
            classroom.grade()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    graded = classroom.grade()
    assert not graded["first"].anew
    assert graded["second"].anew
    assert runs == [TASK.notebook] * 2
    for who in ("first", "second"):
        assert score(classroom, who) == POINTS
        assert "15 of 15 points" in classroom.feedback(who)


def test_a_failure_of_grading_itself_is_reported_and_tried_again(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    classroom.hand_in(BLANK, "first")
    classroom.hand_in(BLANK, "second")

    def broken(name: str, notebook: Any, *arguments: Any) -> Any:
        if len(tried) < work.TRIES:
            tried.append(name)
            raise SandboxError("no process can be started")
        return stand_in(name, notebook, *arguments)

    tried: list[str] = []
    monkeypatch.setattr(work, "grade_notebook", broken)
    monkeypatch.setattr(work, "PAUSE_SECONDS", 0.0)
    graded = classroom.grade()
    assert "not the learner's fault" in graded["first"].failure
    assert "no process can be started" in graded["first"].failure
    assert graded["first"].outcome is None
    assert graded["first"].waits
    assert outcome_of(graded["second"])["status"] == "wrong"
    again = classroom.grade()
    assert again["first"].anew
    assert not again["first"].failure
    assert not again["second"].anew


def test_cases_are_those_of_the_seed(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    course = classroom.course
    seed = course.seed()
    assert len(seed) >= 32
    assert course.seed() == seed
    assert (course.records / "seed").stat().st_mode & 0o077 == 0
    first = course.seed_for("zoë")
    monkeypatch.setenv("FXOPT_SEED", "another")
    assert course.seed() == "another"
    assert course.seed_for("zoë") != first


def test_each_student_has_cases_of_their_own_which_stay_the_same(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: dict[str, list[str]] = {}

    def noting(name: str, notebook: Any, release: Any, tasks: Any, seed: str) -> Any:
        seeds.setdefault(cell(notebook, TASK.answer_id).source.splitlines()[0], []).append(seed)
        return stand_in(name, notebook, release, tasks, seed)

    monkeypatch.setattr(work, "grade_notebook", noting)
    for who in ("ada", "grace"):
        classroom.hand_in(f"# {who}\n{RIGHT}", who)
    classroom.grade()
    classroom.grade(force=True)
    drawn = {who: {repr(case) for seed in found for case in hidden_cases(TASK, seed)} for who, found in seeds.items()}
    assert [len(found) for found in seeds.values()] == [2, 2]
    per_student = len(hidden_cases(TASK, "any"))
    assert [len(found) for found in drawn.values()] == [per_student, per_student]
    assert not drawn["# ada"] & drawn["# grace"]
    secret = classroom.course.seed()
    assert not any(secret in seed for found in seeds.values() for seed in found)


def test_without_bubblewrap_it_works_and_warns(classroom: Classroom, tmp_path: Path) -> None:
    classroom.hand_in(RIGHT)
    programs = tmp_path / "programs"
    programs.mkdir()
    finished = fxopt(classroom, "grade", PATH=str(programs))
    assert finished.returncode == 0, finished.stderr
    assert "Warning: bubblewrap is not installed" in finished.stdout
    recorded = json.loads(nbgrader_plugin.outcome_file(classroom.course, "me", DAY, TASK.notebook).read_text())
    assert recorded["sandboxed"] is False
    assert score(classroom, "me") == POINTS


def test_a_sandbox_that_is_demanded_is_not_silently_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    with pytest.raises(sandbox.SandboxError, match="install the system package"):
        sandbox.Worker([TASK], sandboxed=True)


def test_feedback_shows_code_as_code_and_markup_of_a_message_as_text() -> None:
    outcome = TaskOutcome("any", "Any", "wrong", ["Return `a < b`, not <b>True</b>."])
    (output,) = nbgrader_plugin.task_outputs(outcome)
    assert "Return <code>a &lt; b</code>, not &lt;b&gt;True&lt;/b&gt;." in output["data"]["text/html"]


def test_submit_and_grade_from_the_notebook_gives_feedback_in_the_workspace(classroom: Classroom) -> None:
    import nbformat

    nbformat.write(classroom.answered(RIGHT), classroom.workspace_file)
    finished = fxopt(classroom, "submit", "ex_01", "--grade")
    assert finished.returncode == 0, finished.stderr
    page = re.search(r"Feedback: (\S+)", finished.stdout)
    assert page is not None
    assert "15 of 15 points" in (classroom.course.workspace / page[1]).read_text()
    assert f"{TASK.title}: passed, 15/15" in finished.stdout
    table = fxopt(classroom, "progress").stdout
    assert "graded as passed" in table


def test_submitting_from_a_cell_tells_line_by_line_and_draws_no_bar(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a kernel of Jupyter, which sets `FORCE_COLOR`: rich then takes the cell for a terminal."""
    import nbformat

    from autograder.learner_side.submit_cell import submit

    nbformat.write(classroom.answered(RIGHT), classroom.workspace_file)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.chdir(classroom.course.workspace)
    submit("ex_01")
    lines = capsys.readouterr().out.splitlines()
    assert f"  {TASK.title}: passed, 15/15" in lines
    assert not [line for line in lines if line.startswith("Submissions")]
    assert "" not in lines


def test_a_worse_attempt_is_told_that_the_better_one_counts(classroom: Classroom) -> None:
    said = "Your attempt 1 was better, with 15 points, and that one counts: handing in again never lowers your grade."
    told = []
    for answer in (RIGHT, KEEPS_THE_LAST, RIGHT):
        classroom.hand_in(answer)
        told.append(said in fxopt(classroom, "grade", command=STUBBED).stdout)
    assert told == [False, True, False]
    page = (classroom.course.workspace / "feedback" / f"{TASK.notebook}.html").read_text()
    assert "The best one counts, so handing in again never lowers your grade" in page


def test_where_the_last_attempt_counts_no_other_is_promised(classroom: Classroom) -> None:
    (classroom.course.root / "course.toml").write_text('counts = "last"\n')
    for answer in (RIGHT, KEEPS_THE_LAST):
        classroom.hand_in(answer)
        told = fxopt(classroom, "grade", command=STUBBED).stdout
    assert f"{TASK.title}: wrong" in told
    assert "was better" not in told
    page = (classroom.course.workspace / "feedback" / f"{TASK.notebook}.html").read_text()
    assert "The best one counts" not in page


def test_feedback_is_published_whole(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    count_runs(monkeypatch)
    classroom.hand_in(BLANK)
    graded = classroom.grade()["me"]
    page = publish_feedback(classroom.course, graded)
    assert page is not None
    assert page.is_relative_to(classroom.course.workspace)
    assert not list(page.parent.glob("*.tmp"))


def test_the_gradebook_has_every_task_with_its_points(classroom: Classroom) -> None:
    gradebook.prepare_gradebook(classroom.course)
    with Gradebook(classroom.course.database, "fxopt") as book:
        cells = {cell.name: cell.max_score for cell in book.find_notebook(TASK.notebook, DAY).grade_cells}
    assert cells[TASK.name] == POINTS
    assert set(cells) <= {task.name for task in tasks_of_notebook(TASK.notebook)}
    # A source that did not change is not prepared again; a lost gradebook is.
    (classroom.course.records / "gradebook.db").unlink()
    gradebook.prepare_gradebook(classroom.course)
    with Gradebook(classroom.course.database, "fxopt") as book:
        assert book.find_assignment(DAY).max_score >= POINTS
