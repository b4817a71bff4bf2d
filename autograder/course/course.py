"""Where everything lies, and nbgrader's configuration made from it. Imports no torch."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from traitlets.config import Config

from autograder.course.tracks import TRACKS

ROOT_VARIABLE = "FXOPT_ROOT"
"""Environment variable that names the course's root folder; without it the folder is searched upwards."""

EXCHANGE_VARIABLE = "FXOPT_EXCHANGE"
"""Environment variable that names the folder of the exchange, the same for everybody in a class."""

STUDENT_VARIABLE = "FXOPT_STUDENT"
"""Environment variable that names the student; without it submissions belong to `me`."""


class NoCourseError(RuntimeError):
    """The command was started outside a course."""


@dataclass(frozen=True)
class Course:
    """The folders of one course.

    Attributes:
        root: the repository, or an instructor's copy of it.
    """

    root: Path

    @property
    def solutions(self) -> Path:
        """The authoring source."""
        return self.root / "solutions"

    def sources_of(self, unit: str) -> Path:
        """The folder of a unit's authoring sources.

        Args:
            unit: its folder in `curriculum/`; one that no track knows (the capstone's) lies in `solutions/` itself.
        """
        inside = next((track.inside for track in TRACKS if any(one.folder == unit for one in track.units)), "")
        return self.solutions / inside / unit

    @property
    def curriculum(self) -> Path:
        """The generated student notebooks."""
        return self.root / "curriculum"

    @property
    def workspace(self) -> Path:
        """Where the learner works."""
        return self.root / "workspace"

    @property
    def records(self) -> Path:
        """Submissions, grades and feedback: nbgrader's course folder."""
        return self.root / "course"

    @property
    def submitted(self) -> Path:
        """Submissions: STUDENT/UNIT/NOTEBOOK.ipynb."""
        return self.records / "submitted"

    @property
    def received(self) -> Path:
        """Submissions as they were taken in, rebuilt: STUDENT/UNIT/NOTEBOOK.ipynb. Only grading writes here."""
        return self.records / "received"

    @property
    def database(self) -> str:
        """URL of the gradebook: what `FXOPT_DATABASE` names, or else a file in the course folder."""
        named = os.environ.get("FXOPT_DATABASE", f"sqlite:///{self.records / 'gradebook.db'}")
        # Of several drivers this is the one that comes with the course; the short form of the scheme names none.
        return re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", named)

    @property
    def feedback(self) -> Path:
        """Feedback pages: STUDENT/UNIT/NOTEBOOK.html."""
        return self.records / "feedback"

    @property
    def exchange(self) -> Path:
        """The shared folder of nbgrader's exchange: what `FXOPT_EXCHANGE` names, or one inside the records."""
        named = os.environ.get(EXCHANGE_VARIABLE)
        return Path(named).resolve() if named else self.records / "exchange"

    def seed(self) -> str:
        """The secret behind the hidden cases; made at the first call and kept in the course folder.

        `FXOPT_SEED` in the environment takes its place (an instructor's secret, kept elsewhere).
        """
        if "FXOPT_SEED" in os.environ:
            return os.environ["FXOPT_SEED"]
        path = self.records / "seed"
        if not path.exists():
            self.records.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(16))
        return path.read_text().strip()

    def seed_for(self, student: str) -> str:
        """The secret behind one student's hidden cases: the same at every grading, and of no use to anybody else.

        It is a keyed hash (HMAC, SHA-256) of the student's name, so that neither the course's secret nor another
        student's cases can be worked out from it.
        """
        return hmac.new(self.seed().encode(), student.encode(errors="surrogateescape"), "sha256").hexdigest()


def find_course(start: Path | None = None) -> Course:
    """The course that a folder belongs to.

    Raises:
        NoCourseError: neither this folder nor one above it holds `curriculum/`.
    """
    if ROOT_VARIABLE in os.environ:
        return Course(Path(os.environ[ROOT_VARIABLE]).resolve())
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "curriculum").is_dir() and (folder / "Week1.md").is_file():
            return Course(folder)
    raise NoCourseError(
        f"{here} is not inside the course: run this in the repository, or set {ROOT_VARIABLE} to its folder"
    )


def student() -> str:
    """The student in whose name this machine submits."""
    return os.environ.get(STUDENT_VARIABLE, "me")


def course_config(course: Course) -> Config:
    """nbgrader's configuration: the folders, the gradebook, and grading by our sandbox and judge.

    The same object configures `fxopt grade`, nbgrader's own command line (through `nbgrader_config.py`) and the
    form grader, so that all of them take one path.
    """
    # nbgrader starts the program `alembic`, which lies beside this Python but not necessarily on the path.
    programs = str(Path(sys.executable).parent)
    if programs not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = programs + os.pathsep + os.environ["PATH"]
    config = Config()
    config.CourseDirectory.root = str(course.records)
    config.CourseDirectory.source_directory = os.path.relpath(course.solutions, course.records)
    config.CourseDirectory.release_directory = os.path.relpath(course.curriculum, course.records)
    config.CourseDirectory.course_id = "fxopt"
    config.CourseDirectory.db_url = course.database
    # nbgrader copies every other file of an assignment's folder; the authoring sources must never be among them.
    config.CourseDirectory.ignore = [
        ".*",
        "*.py",
        "*.pyc",
        "__pycache__",
        "*.html",
        "*.md",
        "*.json",
        "*.toml",
    ]
    config.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
    config.ClearSolutions.enforce_metadata = True
    config.OverwriteCells.add_missing_cells = True
    plugin = "autograder.records.nbgrader_plugin"
    config.GradeByJudge.course_root = str(course.root)
    config.AutogradeReceived.course_root = str(course.root)
    # One pass: what nbgrader's sanitizing pass does besides the first of these, `intake` has done. Metadata are those
    # of the release, which nbgrader checked when it was made.
    config.Autograde.autograde_preprocessors = [
        "nbgrader.preprocessors.OverwriteCells",
        f"{plugin}.GradeByJudge",
        "nbconvert.preprocessors.ClearMetadataPreprocessor",
        "nbgrader.preprocessors.LimitOutput",
        "autograder.records.manual_grades.SaveGrades",
        "autograder.records.late_penalties.LatePenalties",
        # Last: what was graded is what the learner wrote, what is kept for showing it is safe to show.
        "autograder.records.display.SafeToShow",
    ]
    config.LatePenalties.course_root = str(course.root)
    config.SafeToShow.course_root = str(course.root)
    config.GenerateFeedback.exporter_class = "autograder.records.feedback.FeedbackExporter"
    pages = Path(str(files("nbgrader"))) / "server_extensions" / "formgrader" / "templates"
    config.FeedbackExporter.template_name = "fxopt_feedback"
    config.FeedbackExporter.extra_template_basedirs = [
        str(Path(__file__).parents[1] / "records" / "feedback_pages"),
        str(pages),
    ]
    return config
