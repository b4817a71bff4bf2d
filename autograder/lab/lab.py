"""Starting JupyterLab for the course, apart from any Jupyter that the user has configured. Imports no torch.

All of Jupyter's own folders (configuration, data, run-time files, settings, layouts, IPython's) lie in the workspace,
under `.fxopt/`: the user's are neither read nor written, so that nothing in them can break the course.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.course import ROOT_VARIABLE, Course
from autograder.course.tracks import START_PAGE
from autograder.course.workspace import PRIVATE_FOLDER
from fxopt_workbench.files import write_whole

PORTS_TRIED = 50
"""How many ports are tried from the one asked for on."""

NBGRADER_CONFIG = '''"""nbgrader's configuration for the form grader: that of `fxopt grade`, with an exchange."""

from autograder.course.course import course_config, find_course
from autograder.records.nbgrader_plugin import grade_what_was_received

grade_what_was_received()
course = find_course()
config = get_config()
config.merge(course_config(course))
config.Exchange.root = str(course.exchange)
config.ExchangeFactory.collect = "autograder.classroom.exchange.SafeCollect"
config.ExchangeCollect.update = True
'''

QUIET_EXTENSIONS = (
    # These ask the network for news, for updates, and for extensions to install.
    "@jupyterlab/apputils-extension:announcements",
    "@jupyterlab/extensionmanager-extension",
    # Pairs notebooks with text files; the learner's notebooks have none.
    "jupyterlab-jupytext",
)

INSTRUCTOR_EXTENSIONS = tuple(
    f"@jupyter/nbgrader:{part}"
    for part in ("menu", "formgrader", "assignment-list", "course-list", "create-assignment")
)
"""What of nbgrader's user interface a learner has no use for; Validate is not among them."""


STYLE = """/* JupyterLab breaks long lines of output in the middle of words. */
.jp-OutputArea .jp-OutputArea-output pre { word-break: normal; overflow-wrap: anywhere; }
"""


class LabError(RuntimeError):
    """JupyterLab cannot be started; the message says why and what to do."""


@dataclass(frozen=True)
class LabStart:
    """How to start JupyterLab.

    Attributes:
        command: the command and its arguments.
        environment: its whole environment.
        page: the address at which the browser opens, relative to the server.
        folder: where it is started, and with it the terminals that are opened there.
    """

    command: list[str]
    environment: dict[str, str]
    page: str
    folder: Path


def free_port(wanted: int) -> int:
    """The first port from `wanted` on at which a local server can listen.

    Raises:
        LabError: `wanted` is no port, or none of the next `PORTS_TRIED` is free.
    """
    if not 1 <= wanted <= 65535:
        raise LabError(f"{wanted} is not a port; ports are 1 to 65535")
    tried = range(wanted, min(wanted + PORTS_TRIED, 65536))
    for port in tried:
        with socket.socket() as listener:
            # As servers do: a port that a stopped server left waiting is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LabError(f"none of the ports {tried[0]} to {tried[-1]} can be used; name another one: make lab PORT=20000")


def prepare(course: Course, port: int, *, browser: bool = True, instructor: bool = False) -> LabStart:
    """Write the configuration of this run and say how to start JupyterLab.

    Args:
        course: the course; its workspace exists.
        port: a free port.
        browser: whether a browser is opened.
        instructor: show the whole course with nbgrader's form grader, instead of the workspace.
    """
    home = course.workspace / PRIVATE_FOLDER / ("jupyter-instructor" if instructor else "jupyter")
    configuration = home / "config"
    page = "/instructor" if instructor else f"/lab/tree/{START_PAGE}"
    if instructor:
        course.exchange.mkdir(parents=True, exist_ok=True)
    _write_configuration(configuration, course.root if instructor else course.workspace, page, instructor)
    _write_files(home / "data" / "kernels" / "python3", {"kernel.json": json.dumps(_kernel(), indent=1)})
    # Last on the path, so that no file of the learner takes the place of a library: `my_fxopt` can be imported.
    startup = f"import sys\n\nsys.path.append({str(course.workspace)!r})\n"
    _write_files(home / "ipython" / "profile_default" / "startup", {"00-workspace.py": startup})

    environment = dict(os.environ)
    programs = str(Path(sys.executable).parent)
    environment |= {
        # Before the environment's own configuration, which enables nbgrader's Validate.
        "JUPYTER_CONFIG_PATH": str(configuration),
        "JUPYTER_CONFIG_DIR": str(configuration),
        "JUPYTER_DATA_DIR": str(home / "data"),
        # The kernel that is found first is ours.
        "JUPYTER_PATH": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        ROOT_VARIABLE: str(course.root),
        # In a terminal of JupyterLab and after `!` in a notebook, `fxopt` and `python` are this environment's.
        "PATH": programs + os.pathsep + environment.get("PATH", os.defpath),
    }
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.port={port}",
        # The port was found free; were it taken since, say so instead of moving on silently.
        "--ServerApp.port_retries=0",
    ]
    if not browser:
        command.append("--no-browser")
    if os.geteuid() == 0:
        command.append("--allow-root")
    return LabStart(command, environment, page, course.root if instructor else course.workspace)


def _write_configuration(folder: Path, shown: Path, page: str, instructor: bool) -> None:
    """Write Jupyter's configuration files. `shown` is the folder that JupyterLab shows."""
    nbgrader = "nbgrader.server_extensions"
    server: dict[str, Any] = {
        "Application": {"log_level": "WARN"},
        "ServerApp": {
            "root_dir": str(shown),
            "answer_yes": True,
            # Not a login shell, as a server without a terminal would start: its profile may put another Python first.
            "terminado_settings": {"shell_command": [os.environ.get("SHELL") or "sh"]},
            "jpserver_extensions": {
                f"{nbgrader}.validate_assignment": False,
                "autograder.lab.server_extension": True,
                "jupyterlab_jupytext": False,
                f"{nbgrader}.formgrader": False,
                "autograder.lab.form_grader": instructor,
                f"{nbgrader}.assignment_list": instructor,
                f"{nbgrader}.course_list": instructor,
            },
        },
        # Looking for language servers runs npm, which writes into the user's folders.
        "LanguageServerManager": {"autodetect": False},
        "LabApp": {
            "default_url": page,
            "news_url": None,
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "extension_manager": "readonly",
            "custom_css": True,
        },
    }
    hidden = QUIET_EXTENSIONS if instructor else QUIET_EXTENSIONS + INSTRUCTOR_EXTENSIONS
    settings = {
        "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
        "@jupyterlab/apputils-extension:notification": {"checkForUpdates": False, "fetchNews": "false"},
    }
    files = {
        "jupyter_server_config.json": json.dumps(server, indent=1),
        "nbgrader_config.py": NBGRADER_CONFIG,
        "custom/custom.css": STYLE,
        "labconfig/page_config.json": json.dumps({"disabledExtensions": dict.fromkeys(hidden, True)}, indent=1),
        "labconfig/default_setting_overrides.json": json.dumps(settings, indent=1),
    }
    _write_files(folder, files)


def _kernel() -> dict[str, Any]:
    """The kernel of the course's notebooks: `python3`, on the Python that runs this."""
    return {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 (fxopt)",
        "language": "python",
        "metadata": {"debugger": True},
    }


def _write_files(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        write_whole(folder / name, content)
