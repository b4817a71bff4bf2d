"""`fxopt lab` as a real server: Validate answers from outside it, and the user's own Jupyter is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from lab_server import TOKEN, LabServer
from tornado.websocket import websocket_connect

from autograder.course.course import Course
from autograder.lab.lab import LabError, free_port, prepare
from autograder.lab.server_extension import dialog, summary

# The stand-in for `fxopt check` does what the notebook's name says.
STAND_IN = """
import json, os, pathlib, sys, time
notebook = pathlib.Path(sys.argv[1])
assert sys.argv[2:] == ["--json"]
def answer(status, messages, code):
    task = {"task": "t", "title": "Title & <b>more</b>", "cell": "t", "status": status, "messages": messages,
            "points": 0.0, "max_points": 5.0}
    print(json.dumps({"notebook": str(notebook), "problems": [], "tasks": [task], "seconds": 0.1}))
    sys.exit(code)
if notebook.stem == "slow":
    notebook.with_name("slow.pid").write_text(str(os.getpid()))
    while not notebook.with_name("slow.go").exists():
        time.sleep(0.02)
    answer("passed", [], 0)
elif notebook.stem == "endless":
    notebook.with_name("endless.pid").write_text(str(os.getpid()))
    time.sleep(600)
elif notebook.stem == "broken":
    sys.exit("no such luck")
else:
    answer("wrong", ["the message"], 1)
"""


class Place:
    """A course, and a home folder whose Jupyter configuration would break any server that read it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "course root"
        self.home = folder / "home"
        self.workspace = self.root / "workspace"
        unit = self.root / "curriculum" / "day1"
        unit.mkdir(parents=True)
        for name in ("slow", "endless", "broken", "any & all"):
            (unit / f"{name}.ipynb").write_text(
                json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
            )
        (self.root / "solutions" / "day1").mkdir(parents=True)
        (self.root / "Week1.md").write_text("# Week 1\n\n[slow](curriculum/day1/slow.ipynb)\n")
        self.stand_in = folder / "stand_in.py"
        self.stand_in.write_text(STAND_IN)
        trap = "raise SystemExit('the configuration of the user was read')\n"
        for name in (
            ".jupyter/jupyter_server_config.py",
            ".jupyter/jupyter_lab_config.py",
            ".jupyter/nbgrader_config.py",
            ".ipython/profile_default/ipython_config.py",
            ".ipython/profile_default/startup/00-trap.py",
        ):
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(trap)
        kernel = self.home / ".local/share/jupyter/kernels/python3/kernel.json"
        kernel.parent.mkdir(parents=True)
        kernel.write_text(json.dumps({"argv": ["/not/this/python"], "display_name": "trap", "language": "python"}))

        for name in (".profile", ".bash_profile"):
            (self.home / name).write_text("PATH=/usr/bin:/bin\ncd /\n")

    def home_listing(self) -> dict[str, bytes | None]:
        return {
            path.relative_to(self.home).as_posix(): path.read_bytes() if path.is_file() else None
            for path in self.home.rglob("*")
        }

    def pid(self, name: str) -> int:
        path = self.workspace / "day1" / f"{name}.pid"
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < deadline, f"the check of {name} never began"
            time.sleep(0.02)
        return int(path.read_text())


def start(place: Place, *arguments: str, terminal: bool = True) -> LabServer:
    """A server whose Validate calls the stand-in."""
    stand_in = [f"--FxoptExtension.check_command={part}" for part in (sys.executable, str(place.stand_in))]
    return LabServer(place.root, place.home, *arguments, "--", *stand_in, terminal=terminal)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[LabServer]:
    before = place.home_listing()
    with start(place) as running:
        yield running
    assert place.home_listing() == before, "the user's home was written to"


def in_background(server: LabServer, path: str) -> tuple[threading.Thread, list[dict[str, Any]]]:
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        # A server that is stopped meanwhile answers nothing.
        with contextlib.suppress(OSError):
            answers.append(server.validate(path))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, answers


def test_the_server_answers_others_while_a_notebook_is_checked(place: Place, server: LabServer) -> None:
    thread, answers = in_background(server, "day1/slow.ipynb")
    place.pid("slow")
    for _ in range(3):
        assert "kernels" in server.get("/api/status")
    assert server.validate("day1/any & all.ipynb")["success"], "other notebooks are checked meanwhile"
    assert answers == [], "the first check still runs"
    (place.workspace / "day1" / "slow.go").write_text("")
    thread.join(60)
    assert answers[0]["success"] is True
    assert answers[0]["value"]["failed"][0]["source"].startswith("1 of 1 checks pass.")


async def typed_in_a_terminal(server: LabServer, name: str, command: str, until: str) -> str:
    address = server.url(f"/terminals/websocket/{name}?token={TOKEN}").replace("http", "ws", 1)
    connection = await websocket_connect(address)
    await connection.write_message(json.dumps(["stdin", command + "\r"]))
    shown = ""
    while until not in shown:
        message = await asyncio.wait_for(connection.read_message(), 60)
        assert message is not None, shown
        kind, *rest = json.loads(message)
        shown += rest[0] if kind == "stdout" else ""
    connection.close()
    return shown


def test_a_terminal_opens_in_the_workspace_and_finds_fxopt(place: Place, server: LabServer) -> None:
    status, text = server.request("POST", "/api/terminals")
    assert status == 200
    name = json.loads(text)["name"]
    # What ends the output is not in the line that is typed.
    command = "unset HISTFILE; command -v fxopt; echo at:$PWD; echo do''ne"
    shown = asyncio.run(typed_in_a_terminal(server, name, command, "done"))
    assert server.request("DELETE", f"/api/terminals/{name}")[0] == 204
    assert str(Path(sys.executable).parent / "fxopt") in shown
    assert f"at:{place.workspace}" in shown


def test_a_wrong_answer_comes_with_its_message_and_without_injected_markup(server: LabServer) -> None:
    (failed,) = server.validate("day1/any & all.ipynb")["value"]["failed"]
    assert failed["source"] == "0 of 1 checks pass."
    assert "not right yet" in failed["error"]
    assert "the message" in failed["error"]
    assert "Title &amp; &lt;b&gt;more&lt;/b&gt;" in failed["error"]


def test_a_check_that_fails_itself_is_told(server: LabServer) -> None:
    answer = server.validate("day1/broken.ipynb")
    assert answer["success"] is False
    assert "no such luck" in answer["value"]


def test_the_path_may_come_in_the_body(server: LabServer) -> None:
    status, text = server.request("POST", "/assignments/validate", {"path": "day1/any & all.ipynb"})
    assert status == 200
    assert json.loads(text)["success"] is True


@pytest.mark.parametrize(
    ("path", "expected", "said"),
    [
        ("../curriculum/day1/slow.ipynb", 403, "leads out of the folder"),
        ("day1/../../Week1.md", 403, "leads out of the folder"),
        ("outside/hosts.ipynb", 403, "leads out of the folder"),
        ("day1/absent.ipynb", 404, "save the notebook first"),
        ("day1", 404, "is not there"),
        ("", 400, "which notebook"),
    ],
)
def test_paths_that_are_refused(place: Place, server: LabServer, path: str, expected: int, said: str) -> None:
    link = place.workspace / "outside"
    if not link.is_symlink():
        link.symlink_to(place.root / "curriculum")
    status, text = server.request("POST", f"/assignments/validate?path={path}")
    assert status == expected
    assert said in json.loads(text)["message"]


@pytest.mark.parametrize("body", [[], {"path": 3}, {"path": "a\0b"}, {"other": "x"}, None])
def test_a_body_without_a_path_is_refused(server: LabServer, body: Any) -> None:
    assert server.request("POST", "/assignments/validate", body)[0] == 400


def test_strangers_are_refused(server: LabServer) -> None:
    for token in (None, "wrong"):
        assert server.request("POST", "/assignments/validate?path=day1/broken.ipynb", token=token)[0] == 403
        assert server.request("GET", "/nbgrader_version?version=0.9.6", token=token)[0] in (302, 403)


def test_the_version_of_the_button_is_compared(server: LabServer) -> None:
    from nbgrader import __version__ as installed

    assert server.get(f"/nbgrader_version?version={installed}") == {"success": True}
    other = server.get("/nbgrader_version?version=0.1")
    assert other["success"] is False
    assert "0.1" in other["message"]


def test_when_the_browser_leaves_the_check_ends(place: Place, server: LabServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as browser:
        browser.sendall(
            b"POST /assignments/validate?path=day1/endless.ipynb HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Authorization: token token-of-the-tests\r\nContent-Length: 0\r\n\r\n"
        )
        pid = place.pid("endless")
        assert psutil.pid_exists(pid)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, "the check goes on though nobody waits for it"
        time.sleep(0.05)
    (place.workspace / "day1" / "endless.pid").unlink()


def test_the_kernel_is_this_python_whatever_kernels_the_user_has(server: LabServer) -> None:
    kernels = server.get("/api/kernelspecs")
    assert kernels["default"] == "python3"
    assert kernels["kernelspecs"]["python3"]["spec"]["argv"][0] == sys.executable


def test_the_page_opens_as_text_and_asks_the_network_for_nothing(server: LabServer) -> None:
    status, page = server.request("GET", "/lab/tree/Week1.md")
    assert status == 200
    found = re.search(r'<script id="jupyter-config-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    configuration = json.loads(found[1])
    disabled = configuration["disabledExtensions"]
    assert "@jupyterlab/apputils-extension:announcements" in disabled
    assert "@jupyterlab/extensionmanager-extension" in disabled
    assert "@jupyter/nbgrader:menu" in disabled
    assert not any("validate" in name for name in disabled)
    assert configuration["news"]["disabled"] is True
    viewers = server.get("/lab/api/settings/@jupyterlab/docmanager-extension:plugin")
    assert json.loads(viewers["raw"] or "{}") == {}, "nothing is written as if the user had set it"
    assert viewers["schema"]["properties"]["defaultViewers"]["default"] == {"markdown": "Markdown Preview"}
    assert server.get("/lab/api/update")["notification"] is None


def test_output_is_broken_between_words(server: LabServer) -> None:
    assert "custom/custom.css" in server.request("GET", "/lab")[1]
    status, style = server.request("GET", "/custom/custom.css")
    assert status == 200
    assert "word-break: normal" in style


def test_the_workspace_is_shown_and_filled(place: Place, server: LabServer) -> None:
    names = {entry["name"] for entry in server.get("/api/contents")["content"]}
    assert {"Week1.md", "day1"} <= names
    assert ".fxopt" not in names
    assert "](day1/slow.ipynb)" in server.get("/api/contents/Week1.md")["content"]


def test_the_form_grader_of_an_instructor_reads_the_course(place: Place, tmp_path: Path) -> None:
    graded = {"nbgrader": {"grade": True, "grade_id": "a_task", "points": 1}}
    cell = {"cell_type": "markdown", "metadata": graded, "source": "# An exercise"}
    (place.root / "curriculum" / "day1" / "graded.ipynb").write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    with start(place, "--instructor", terminal=False) as instructor:
        status, page = instructor.request("GET", "/formgrader/manage_assignments")
        assert status == 200
        assert "fxopt" in page
        assignments = instructor.get("/formgrader/api/assignments")
        assert [assignment["name"] for assignment in assignments] == ["day1"]
        assert [notebook["name"] for notebook in instructor.get("/formgrader/api/notebooks/day1")] == ["graded"]
        gradebook = instructor.get("/api/contents/course")
        assert "gradebook.db" in {entry["name"] for entry in gradebook["content"]}


@pytest.mark.parametrize(("terminal", "number"), [(False, signal.SIGINT), (True, signal.SIGHUP)])
def test_a_service_that_is_interrupted_or_loses_its_terminal_stops_in_order(
    place: Place, terminal: bool, number: int
) -> None:
    marker = place.workspace / "day1" / "endless.pid"
    marker.unlink(missing_ok=True)
    with start(place, terminal=terminal) as service:
        in_background(service, "day1/endless.ipynb")
        pid = place.pid("endless")
        assert service.stop(number) == 0
    assert not psutil.pid_exists(pid)
    marker.unlink()


def test_ctrl_c_stops_the_server_and_the_checks_under_way(place: Place, server: LabServer) -> None:
    """Last in this file: it ends the server that the others share."""
    thread, answers = in_background(server, "day1/endless.ipynb")
    pid = place.pid("endless")
    assert server.stop() == 0
    assert not psutil.pid_exists(pid)
    thread.join(60)
    assert answers in ([], [{"success": False, "value": "The check was stopped."}])
    assert "Traceback" not in server.log()


def test_a_taken_port_gives_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port(port) <= port + 50
    assert free_port(port) == port


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(LabError, match=f"{port} is not a port"):
        free_port(port)


def test_root_may_start_it_and_nobody_else_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workspace").mkdir()
    for user, allowed in ((0, True), (1000, False)):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        command = prepare(Course(tmp_path), 8888).command
        assert ("--allow-root" in command) is allowed


def outcome(*statuses: str, problems: tuple[str, ...] = ()) -> dict[str, Any]:
    tasks = [
        {"task": f"t{number}", "title": f"Task {number}", "status": status, "messages": [f"says {number}"]}
        for number, status in enumerate(statuses)
    ]
    return {"notebook": "n", "problems": list(problems), "tasks": tasks}


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (outcome("passed", "passed"), "2 of 2 checks pass. Hidden cases are tried when you submit."),
        (outcome("passed", "wrong", "not written"), "1 of 3 checks pass, 1 not yet written."),
        (outcome(), "Nothing to check here."),
        (outcome(problems=("no kernel",)), "Nothing was checked."),
    ],
)
def test_summary(found: dict[str, Any], line: str) -> None:
    assert summary(found) == line


def test_the_dialog_shows_each_task_by_words_and_not_by_colour_alone() -> None:
    found = outcome("passed", "wrong", "not written", "time limit", "memory limit", problems=("a <problem>",))
    shown = dialog(found)["failed"][0]["error"]
    found["tasks"][1]["messages"] = ["says 1 of `x < y`"]
    shown = dialog(found)["failed"][0]["error"]
    assert "<code>x &lt; y</code>" in shown
    for words in ("passed", "not right yet", "not yet written", "took too long", "memory limit", "a &lt;problem&gt;"):
        assert words in shown
    assert "says 1" in shown
    assert "says 2" not in shown, "what is not yet written needs no message"
