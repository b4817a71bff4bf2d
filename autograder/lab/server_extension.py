"""Jupyter server extension behind JupyterLab's Validate button, in place of nbgrader's.

nbgrader's own handler runs the notebook inside the server, which answers nobody meanwhile. This one serves the same
addresses to the same button, and lets `fxopt check` do the work in a process of its own. Imports no torch.
"""

from __future__ import annotations

import asyncio
import html
import signal
import sys
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from nbgrader import __version__ as nbgrader_version
from tornado import web
from traitlets import Float, Integer, List, Unicode

from autograder.exchange.markup import with_code
from autograder.lab.validate_button import NotebookValidator, ValidationError

MARKS = {
    "passed": "✔ passed",
    "wrong": "✘ not right yet",
    "not written": "… not yet written",
    "error": "✘ error",
    "time limit": "✘ stopped: took too long",
}
"""How each status is shown; another one is shown as it is, with a cross."""


class FxoptExtension(ExtensionApp):
    """Serves Validate. Configured as `FxoptExtension` in a Jupyter server's configuration."""

    name = "fxopt"

    check_command = List(
        Unicode(),
        [sys.executable, "-c", "from fxopt_workbench.cli import main; main()", "check"],
        help="What checks a notebook; the notebook's path and --json are appended.",
    ).tag(config=True)
    time_limit = Float(300.0, help="Seconds after which a check is stopped.").tag(config=True)
    output_limit = Integer(2**20, help="Bytes of output after which a check is stopped.").tag(config=True)

    def initialize_settings(self) -> None:
        """Make what the handlers share."""
        assert self.serverapp is not None
        validator = NotebookValidator(self.check_command, self.time_limit, self.output_limit)
        _stop_in_order(self.serverapp)
        self.settings.update(fxopt_validator=validator, fxopt_root=Path(self.serverapp.root_dir).resolve())

    def initialize_handlers(self) -> None:
        """Serve the addresses that nbgrader's button asks."""
        self.handlers.extend(
            [(r"/assignments/validate", ValidateHandler), (r"/nbgrader_version", VersionHandler)],
        )

    async def stop_extension(self) -> None:
        """End the checks that are under way."""
        await self.settings["fxopt_validator"].close()


def _stop_in_order(server: ServerApp) -> None:
    """Stop the server, its extensions and kernels also where Jupyter would let a signal end the process as it is.

    Without a terminal Jupyter leaves interrupts to Python (and the process then may wait for a thread for ever), and
    it dies when its terminal is closed. A signal that somebody handles or ignores (`nohup`) is left alone.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, lambda *_: server.stop(from_signal=True))


class ValidateHandler(APIHandler):
    """Checks one notebook."""

    _task: asyncio.Task[dict[str, Any]] | None = None

    @web.authenticated
    async def post(self) -> None:
        """Check the notebook at `path`, an argument of the query or of a JSON body, relative to the server's root.

        Answers `{"success": bool, "value": …}` as nbgrader's dialog expects it. 400: no path. 403: a path that
        leads out of the root. 404: no such file.
        """
        notebook = self._notebook()
        self._task = asyncio.create_task(self.settings["fxopt_validator"].validate(notebook))
        try:
            answer = {"success": True, "value": dialog(await self._task)}
        except ValidationError as error:
            self.log.warning("validation of %s: %s", notebook, error)
            answer = {"success": False, "value": str(error)}
        except asyncio.CancelledError:
            # The browser left, or the server is stopping.
            answer = {"success": False, "value": "The check was stopped."}
        self.finish(answer)

    def on_connection_close(self) -> None:
        """The browser is gone: it waits no longer."""
        if self._task is not None:
            self._task.cancel()
        super().on_connection_close()

    def _notebook(self) -> Path:
        path = self.get_argument("path", None)
        if path is None:
            body = self.get_json_body() if self.request.body else None
            path = body.get("path") if isinstance(body, dict) else None
        if not isinstance(path, str) or not path or "\0" in path:
            raise web.HTTPError(400, "which notebook? give its path as the argument `path`")
        root: Path = self.settings["fxopt_root"]
        notebook = (root / path.lstrip("/")).resolve()
        if not notebook.is_relative_to(root):
            raise web.HTTPError(403, f"{path} leads out of the folder that this server shows")
        if not notebook.is_file():
            raise web.HTTPError(404, f"{path} is not there; save the notebook first")
        return notebook


class VersionHandler(APIHandler):
    """Tells the button whether it fits the installed nbgrader; it asks before each validation."""

    @web.authenticated
    def get(self) -> None:
        """Compare the argument `version` with nbgrader's."""
        button = self.get_argument("version")
        if button == nbgrader_version:
            self.finish({"success": True})
            return
        message = (
            f"the Validate button is of nbgrader {button}, but nbgrader {nbgrader_version} is installed. "
            "Run `make setup`, start `make lab` again and reload this page."
        )
        self.finish({"success": False, "message": message})


def dialog(outcome: dict[str, Any]) -> dict[str, Any]:
    """What nbgrader's dialog is to show for an outcome of `fxopt check --json`.

    The dialog knows one shape with room for text of ours: a failed cell, with a `source` (plain text, used for the
    summary) and an `error` (HTML, used for the list of tasks). The dialog's own words above it, "The following cell
    failed", would be wrong for what is not yet written, so a style takes them away.
    """
    tasks = outcome.get("tasks", [])
    problems = "".join(f"<p>! {with_code(problem)}</p>" for problem in outcome.get("problems", []))
    items = "".join(
        f'<li data-task="{_text(task["task"])}" data-status="{_text(task["status"])}" style="margin-top:0.6em">'
        f"<b>{_text(MARKS.get(task['status'], '✘ ' + task['status']))}</b>: {_text(task['title'])}"
        + "".join(f"<div>→ {with_code(message)}</div>" for message in _messages(task))
        + "</li>"
        for task in tasks
    )
    body = (
        "<style>#validation-message > div > p { display: none }</style>"
        '<div class="fxopt-validation" style="white-space:pre-wrap;font-family:var(--jp-ui-font-family)">'
        f'{problems}<ul style="list-style:none;margin:0;padding:0">{items}</ul></div>'
    )
    return {"failed": [{"source": summary(outcome), "error": body}]}


def summary(outcome: dict[str, Any]) -> str:
    """One line over an outcome of `fxopt check --json`."""
    statuses = [task["status"] for task in outcome.get("tasks", [])]
    if not statuses:
        return "Nothing was checked." if outcome.get("problems") else "Nothing to check here."
    passed = statuses.count("passed")
    line = f"{passed} of {len(statuses)} checks pass"
    if blank := statuses.count("not written"):
        line += f", {blank} not yet written"
    line += "."
    if passed == len(statuses):
        line += " Hidden cases are tried when you submit."
    return line


def _messages(task: dict[str, Any]) -> list[str]:
    # "Not yet written" says it all: the message would repeat it.
    return [] if task["status"] == "not written" else task["messages"]


def _text(value: object) -> str:
    return html.escape(str(value))


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Where Jupyter finds the extension."""
    return [{"module": "autograder.lab.server_extension", "app": FxoptExtension}]
