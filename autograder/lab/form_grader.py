"""nbgrader's form grader, behind a strict content security policy. Imports no torch.

A Jupyter server extension in the place of nbgrader's own: the same pages and the same addresses. What is different is
what a browser is allowed to do with them: see `autograder.records.pages`. Submissions were made safe to show when they
were graded (`autograder.records.display`); the policy holds where that should ever fail, and for names in URLs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from nbconvert.exporters import HTMLExporter
from nbgrader.api import MissingEntry
from nbgrader.apps.api import NbGraderAPI
from nbgrader.server_extensions.formgrader import apihandlers, handlers
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
from tornado import web
from tornado.web import Application

from autograder.course.course import NoCourseError, find_course
from autograder.course.notebooks import heading_of
from autograder.course.rules_file import RulesError, read_rules
from autograder.course.tasks import task_titles
from autograder.course.tracks import unit_title
from autograder.records.pages import StrictTemplates, handlers_of, harmless, page_policy

TEMPLATES = Path(handlers.template_path)

PAGES = Path(__file__).with_name("form_grader_pages")
"""Templates of ours, beside nbgrader's."""

RUBRIC = Path(__file__).with_name("rubric.js")

TITLES = Path(__file__).with_name("titles.js")

STATES = Path(__file__).with_name("states.js")

HANDLERS = frozenset(
    text for path in TEMPLATES.rglob("*") if path.is_file() for text in handlers_of(path.read_text(encoding="utf-8"))
)
"""The event handlers in nbgrader's templates, which the policy allows by their text."""


class SubmissionExporter(HTMLExporter):
    """Writes the page of one submission; its template asks `resources.nonce` for the page's nonce."""

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.loader = StrictTemplates(environment.loader, "(resources or {}).nonce")
        return environment


class _PageExporter:
    """The exporter as one request sees it: with that page's nonce, and names that can stand anywhere."""

    def __init__(self, exporter: HTMLExporter, nonce: str) -> None:
        self._exporter, self._nonce = exporter, nonce

    def from_filename(self, filename: str, resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        safe = {key: harmless(value) for key, value in resources.items()}
        page, further = self._exporter.from_filename(filename, resources=safe | {"nonce": self._nonce})
        rubrics = rubrics_of(filename)
        if rubrics:
            # A field before each line of a rubric.
            page = with_script(page, self._nonce, RUBRIC, rubrics)
        page = with_script(page, self._nonce, STATES, {})
        return with_script(page, self._nonce, TITLES, titles()), further


def with_script(page: str, nonce: str, script: Path, told: object) -> str:
    """A page with a script of ours at its end, a function that is called with what it is told."""
    # Text of the course, in a script: it must not end it.
    written = json.dumps(told).replace("<", "\\u003c")
    head, end, tail = page.rpartition("</body>")
    return f'{head}<script nonce="{nonce}">({script.read_text(encoding="utf-8")})({written});</script>{end}{tail}'


@dataclass(frozen=True)
class Released:
    """What the lists tell of a notebook that was handed out.

    Attributes:
        title: its first heading; `""` where there is none.
        graded: whether there are points in it.
    """

    title: str
    graded: bool


@lru_cache
def _released(path: Path, _state: tuple[int, int]) -> Released:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError):
        return Released("", False)
    return Released(heading_of(cells), any(cell["metadata"].get("nbgrader", {}).get("grade") for cell in cells))


def released_notebooks(curriculum: Path) -> dict[str, dict[str, Released]]:
    """The graded notebooks that are handed out, by folder and by file name without suffix."""
    found: dict[str, dict[str, Released]] = {}
    for path in sorted(curriculum.glob("*/*.ipynb")):
        state = path.stat()
        notebook = _released(path, (state.st_mtime_ns, state.st_size))
        if notebook.graded:
            found.setdefault(path.parent.name, {})[path.stem] = notebook
    return found


def titles() -> dict[str, str]:
    """What to call assignments, notebooks and tasks, by the names of their files and cells."""
    try:
        released = released_notebooks(find_course().curriculum)
    except NoCourseError:
        released = {}
    found = task_titles()
    for folder, notebooks in released.items():
        found[folder] = unit_title(folder)
        found |= {name: notebook.title or name for name, notebook in notebooks.items()}
    return found


class CourseAPI(NbGraderAPI):
    """What the lists show: the assignments and notebooks in which there are points, of all tracks.

    nbgrader lists the folders of the authoring sources, which are laid out otherwise; here it is what was handed out.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Read the course's folders as nbgrader does, but for the one that it lists."""
        super().__init__(*arguments, **options)
        self.coursedir.source_directory = self.coursedir.release_directory

    @property
    def _graded(self) -> dict[str, dict[str, Released]]:
        return released_notebooks(Path(self.coursedir.root, self.coursedir.release_directory).resolve())

    def get_source_assignments(self) -> set[str]:
        """The names of all assignments."""
        return set(self._graded)

    def get_assignment(self, assignment_id: str, released: set[str] | None = None) -> dict[str, Any] | None:
        """One assignment, with the deadline of `course.toml`, which is the one that counts."""
        found: dict[str, Any] | None = super().get_assignment(assignment_id, released)
        if found is not None:
            found |= self._deadline(assignment_id)
        return found

    @staticmethod
    def _deadline(assignment: str) -> dict[str, str | None]:
        try:
            rules = read_rules(find_course())
        except (NoCourseError, RulesError):
            return {"duedate": "unknown", "display_duedate": "unknown: see `fxopt course check`"}
        terms = rules.terms.get(assignment, rules.other)
        if terms.deadline is None:
            return {"duedate": None, "display_duedate": None}
        return {"duedate": terms.deadline.isoformat(), "display_duedate": terms.local(terms.deadline)}

    def get_notebooks(self, assignment_id: str) -> list[dict[str, Any]]:
        """The graded notebooks of an assignment."""
        graded = self._graded.get(assignment_id, {})
        return [found for found in super().get_notebooks(assignment_id) if found["name"] in graded]

    def get_student_notebook_submissions(self, student_id: str, assignment_id: str) -> list[dict[str, Any]]:
        """The graded notebooks of what one student handed in."""
        graded = self._graded.get(assignment_id, {})
        found = super().get_student_notebook_submissions(student_id, assignment_id)
        return [each for each in found if each["name"] in graded]

    def generate_assignment(self, assignment_id: str, force: bool = True, create: bool = True) -> dict[str, Any]:
        """Refuse: nbgrader would write over the notebooks of `curriculum/`, which another command builds."""
        return {"success": False, "error": "", "log": "`make notebooks` builds the notebooks that you hand out."}


class OfTheCourse:
    """Gives a handler of nbgrader the course's lists."""

    log: Any
    coursedir: Any
    authenticator: Any

    @property
    def api(self) -> CourseAPI:
        """What the lists are made from, configured as nbgrader configures it."""
        level = self.log.level
        self.coursedir.parent.load_config_file()
        api = CourseAPI(self.coursedir, self.authenticator, parent=self.coursedir.parent)
        api.log_level = level
        return api


def rubrics_of(filename: str) -> dict[str, dict[str, float]]:
    """Rubrics of the written answers in a graded notebook, as its released one has them: points by line, by task."""
    path = Path(filename)
    try:
        released = json.loads((find_course().curriculum / path.parent.name / path.name).read_text())
    except (OSError, ValueError, NoCourseError):
        return {}
    texts = {
        cell["metadata"].get("nbgrader", {}).get("grade_id"): "".join(cell["source"]) for cell in released["cells"]
    }
    found = {}
    for cell in released["cells"]:
        rubric = cell["metadata"].get("fxopt", {}).get("rubric")
        if rubric:
            name = cell["metadata"]["nbgrader"]["grade_id"]
            # In the order in which the task's text lists them; in a file of a notebook, keys are sorted.
            text = texts.get(f"{name}-task", "")
            found[name] = dict(sorted(rubric.items(), key=lambda line: text.find(f"| {line[0]} |")))
    return found


class UnknownPageError(web.HTTPError):
    """There is nothing to show at an address; `what` says so to a person."""

    def __init__(self, what: str) -> None:
        """Nothing to show, as `what` says."""
        super().__init__(404)
        self.what = what


PROBLEMS = {
    403: ("You may not see this page", "Your account may not open the form grader."),
    404: (
        "There is no such page",
        "Nothing is at this address. A submission gets a new address when it is removed and handed in again.",
    ),
    500: ("This page could not be made", "The form grader met an error. The terminal that runs it tells which."),
}
"""Heading and text of the page that a status gets."""


class StrictPage(OfTheCourse):
    """Gives a handler of nbgrader a policy, and its page the nonce of that policy."""

    settings: dict[str, Any]
    base_url: str
    gradebook: Any
    _drawn: str | None = None

    @property
    def nonce(self) -> str:
        """A number that nobody can know before this page is made."""
        if self._drawn is None:
            self._drawn = secrets.token_urlsafe(18)
        return self._drawn

    @property
    def content_security_policy(self) -> str:
        """What the browser may do with this page."""
        return page_policy(self.nonce, HANDLERS)

    @property
    def exporter(self) -> _PageExporter:
        """Makes the page of a submission."""
        return _PageExporter(self.settings["nbgrader_exporter"], self.nonce)

    def render(self, name: str, **names: Any) -> str:
        """One of the other pages."""
        if name == "formgrade_404.tpl":
            # nbgrader's page for this builds on a file that is not there.
            student, unit = names["resources"]["student"], names["resources"]["assignment_id"]
            raise UnknownPageError(
                f"The graded notebook of {student} for {unit} is not there. "
                f"`fxopt grade --student {student} --unit {unit} --force` makes it again."
            )
        page = self.settings["nbgrader_jinja2_env"].get_template(name).render(nonce=self.nonce, **names)
        return with_script(page, self.nonce, TITLES, titles())

    def check_known(
        self, *, assignment: str | None = None, notebook: str | None = None, student: str | None = None
    ) -> None:
        """Say where a page would show nothing, because no such thing is known.

        Raises:
            UnknownPageError: something is not known.
        """
        graded = self.api._graded
        if assignment is not None and assignment not in graded:
            raise UnknownPageError(f"There is no assignment {assignment}.")
        if assignment is not None and notebook is not None and notebook not in graded[assignment]:
            raise UnknownPageError(f"There is no graded notebook {notebook} in {assignment}.")
        if student is not None:
            try:
                self.gradebook.find_student(student)
            except MissingEntry:
                raise UnknownPageError(
                    f"There is no student {student} on the class list, and none of that name was graded."
                ) from None

    def write_error(self, status_code: int, **details: Any) -> None:
        """The page of a problem: what is the matter, and where to go."""
        error = (details.get("exc_info") or (None, None))[1]
        heading, what = PROBLEMS.get(status_code, PROBLEMS[500])
        if isinstance(error, UnknownPageError):
            what = error.what
        names = {"heading": heading, "what": what, "error_code": status_code, "base_url": self.base_url}
        self.finish(self.render("problem.tpl", **names))  # type: ignore[attr-defined]  # tornado's


class _KnownOnly:
    """Asks `check_known` before a page is made; `names` says what the parts of its address are."""

    names: tuple[str, ...]

    @web.authenticated
    def get(self, *parts: str) -> Any:
        """The page, where there is something to show."""
        self.check_known(**dict(zip(self.names, parts, strict=True)))  # type: ignore[attr-defined]
        return super().get(*parts)  # type: ignore[misc]


NAMES_IN = {
    handlers.ManageSubmissionsHandler: ("assignment",),
    handlers.GradebookNotebooksHandler: ("assignment",),
    handlers.GradebookNotebookSubmissionsHandler: ("assignment", "notebook"),
    handlers.ManageStudentsAssignmentsHandler: ("student",),
    handlers.ManageStudentNotebookSubmissionsHandler: ("student", "assignment"),
}
"""What the parts of these pages' addresses name. nbgrader shows an empty list for what is not known."""


def _strict(kind: type) -> type:
    """A handler of nbgrader with a policy; handlers of plain files need none."""
    if not issubclass(kind, handlers.BaseHandler):
        return kind
    if kind in NAMES_IN:
        return type(f"Strict{kind.__name__}", (_KnownOnly, StrictPage, kind), {"names": NAMES_IN[kind]})
    return type(f"Strict{kind.__name__}", (StrictPage, kind), {})


def _of_the_course(kind: type) -> type:
    """A handler of nbgrader's lists, with those of the course."""
    kind = HANDLERS_IN_PLACE.get(kind, kind)
    return type(kind.__name__, (OfTheCourse, kind), {})


class TellsTheLearner(apihandlers.GradeHandler):
    """Saves a person's points, as nbgrader does, and brings the learner's page up to date with them at once."""

    @web.authenticated
    def put(self, grade_id: str) -> None:
        """Save the points of one cell."""
        super().put(grade_id)
        grade = self.gradebook.find_grade_by_id(grade_id)
        refresh_soon(str(grade.student.id), str(grade.assignment.name))


class TellsTheLearnerWhy(apihandlers.CommentHandler):
    """Saves a person's comment likewise."""

    @web.authenticated
    def put(self, comment_id: str) -> None:
        """Save the comment on one cell."""
        super().put(comment_id)
        comment = self.gradebook.find_comment_by_id(comment_id)
        refresh_soon(str(comment.student.id), str(comment.assignment.name))


_waiting: dict[tuple[str, str], bool] = {}
"""Submissions whose pages are being made, and whether they have changed again meanwhile."""

_running: set[asyncio.Task[None]] = set()


def refresh_soon(student: str, unit: str) -> None:
    """Begin to make the pages of a submission anew; nobody who saves points waits for it."""
    task = asyncio.get_running_loop().create_task(refresh(student, unit))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def refresh(student: str, unit: str) -> None:
    """Have the pages of a submission made anew, in a process of its own, once for any number of changes meanwhile."""
    key = student, unit
    if key in _waiting:
        _waiting[key] = True
        return
    _waiting[key] = True
    try:
        while _waiting[key]:
            _waiting[key] = False
            code = "import sys; from autograder.classroom.feedback import main; main(*sys.argv[1:])"
            process = await asyncio.create_subprocess_exec(sys.executable, "-W", "ignore", "-c", code, student, unit)
            if await process.wait():
                logging.getLogger(__name__).error("the feedback page of %s for %s was not made anew", student, unit)
    finally:
        del _waiting[key]


HANDLERS_IN_PLACE = {apihandlers.GradeHandler: TellsTheLearner, apihandlers.CommentHandler: TellsTheLearnerWhy}
"""Handlers of ours, in the place of nbgrader's."""


class OpenInJupyterLab(JupyterHandler):
    """Leads to JupyterLab with the form grader open.

    Its address has no question mark: Jupyter appends `?token=…` to the address that it prints, and JupyterLab opens the
    form grader by `?formgrader=true`, so that the two together were no address at all.
    """

    @web.authenticated
    def get(self) -> None:
        """Lead there, by now with a cookie in the place of the token."""
        self.redirect(url_path_join(self.base_url, "lab") + "?formgrader=true")


class FormGrader(FormgradeExtension):
    """nbgrader's extension with strict pages."""

    def init_tornado_settings(self, webapp: Application) -> None:
        """Make what the handlers share."""
        super().init_tornado_settings(webapp)
        loader = StrictTemplates(FileSystemLoader([str(PAGES), str(TEMPLATES)]), "nonce")
        webapp.settings.update(
            nbgrader_exporter=SubmissionExporter(config=self.config),
            nbgrader_jinja2_env=Environment(loader=loader, autoescape=True, finalize=harmless),
        )

    def init_handlers(self, webapp: Application) -> None:
        """Serve nbgrader's addresses."""
        pages = [(address, _strict(kind), *options) for address, kind, *options in handlers.default_handlers]
        pages += [(address, _of_the_course(kind), *options) for address, kind, *options in apihandlers.default_handlers]
        pages += [
            (r"/formgrader/static/(.*)", web.StaticFileHandler, {"path": handlers.static_path}),
            (r"/formgrader/.*", _strict(handlers.Template404)),
            (r"/instructor", OpenInJupyterLab),
        ]
        base = webapp.settings["base_url"]
        webapp.add_handlers(".*$", [(url_path_join(base, page[0].lstrip("/")), *page[1:]) for page in pages])


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "autograder.lab.form_grader"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    """Load the form grader into a Jupyter server."""
    form_grader = FormGrader(parent=server)
    form_grader.root_dir = server.root_dir
    form_grader.log = server.log
    form_grader.initialize([])
    form_grader.init_tornado_settings(server.web_app)
    form_grader.init_handlers(server.web_app)
