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
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import apihandlers, handlers
from nbgrader.server_extensions.formgrader.formgrader import FormgradeExtension
from tornado import web
from tornado.web import Application

from autograder.course.course import NoCourseError, find_course
from autograder.records.pages import StrictTemplates, handlers_of, harmless, page_policy

TEMPLATES = Path(handlers.template_path)

RUBRIC = Path(__file__).with_name("rubric.js")

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
        return self._with_rubrics(page, rubrics_of(filename)), further

    def _with_rubrics(self, page: str, rubrics: dict[str, dict[str, float]]) -> str:
        """The page with a script of ours at its end, which puts a field before each line of a rubric."""
        if not rubrics:
            return page
        # Text of the course, in a script: it must not end it.
        told = json.dumps(rubrics).replace("<", "\\u003c")
        head, end, tail = page.rpartition("</body>")
        return f'{head}<script nonce="{self._nonce}">({RUBRIC.read_text()})({told});</script>{end}{tail}'


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


class StrictPage:
    """Gives a handler of nbgrader a policy, and its page the nonce of that policy."""

    settings: dict[str, Any]
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
        return self.settings["nbgrader_jinja2_env"].get_template(name).render(nonce=self.nonce, **names)


def _strict(kind: type) -> type:
    """A handler of nbgrader with a policy; handlers of plain files need none."""
    if not issubclass(kind, handlers.BaseHandler):
        return kind
    return type(f"Strict{kind.__name__}", (StrictPage, kind), {})


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
        loader = StrictTemplates(FileSystemLoader([str(TEMPLATES)]), "nonce")
        webapp.settings.update(
            nbgrader_exporter=SubmissionExporter(config=self.config),
            nbgrader_jinja2_env=Environment(loader=loader, autoescape=True, finalize=harmless),
        )

    def init_handlers(self, webapp: Application) -> None:
        """Serve nbgrader's addresses."""
        pages = [(address, _strict(kind), *options) for address, kind, *options in handlers.default_handlers]
        pages += [
            (address, HANDLERS_IN_PLACE.get(kind, kind), *options)
            for address, kind, *options in apihandlers.default_handlers
        ]
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
