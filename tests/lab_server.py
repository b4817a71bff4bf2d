"""A real JupyterLab server for tests, started by `fxopt lab`, that knows nothing of the user's own Jupyter."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TOKEN = "token-of-the-tests"
START_SECONDS = 120.0
STOP_SECONDS = 60.0


def any_port() -> int:
    """A port that is free now, away from those that people use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def clean_environment(home: Path) -> dict[str, str]:
    """This process's environment, with `home` as home folder and without anything that configures Jupyter."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "IPYTHON", "FXOPT", "XDG_"))
    }
    return environment | {"HOME": str(home), "JUPYTER_TOKEN": TOKEN, "TORCHINDUCTOR_COMPILE_THREADS": "1"}


class LabServer:
    """`fxopt lab`, started on a course in a folder of the test. A context manager."""

    def __init__(
        self, root: Path, home: Path, *arguments: str, environment: dict[str, str] | None = None, terminal: bool = True
    ) -> None:
        self.port = any_port()
        self.log_path = home.parent / f"lab-{self.port}.log"
        self._command = [
            sys.executable,
            "-c",
            "from fxopt_workbench.cli import main; main()",
            "lab",
            "--port",
            str(self.port),
            "--no-browser",
            *arguments,
        ]
        self._root = root
        self._terminal = terminal
        self._environment = clean_environment(home) | {"FXOPT_ROOT": str(root)} | (environment or {})

    def __enter__(self) -> LabServer:
        # In a terminal, or as a service that has none: Jupyter treats an interrupt differently.
        self._keyboard, stdin = os.openpty() if self._terminal else (None, os.open(os.devnull, os.O_RDONLY))
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=self._root,
                env=self._environment,
                stdin=stdin,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(stdin)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.get("/api/status")
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"JupyterLab did not start:\n{self.log()}") from None
                time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal (Ctrl+C); the exit code. A server that does not stop is killed, and fails the test."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        finally:
            if self._keyboard is not None:
                os.close(self._keyboard)
                self._keyboard = None

    def log(self) -> str:
        """What the server printed."""
        return self.log_path.read_text(errors="replace")

    def url(self, path: str) -> str:
        """Address of a path at this server."""
        return f"http://127.0.0.1:{self.port}{path}"

    def request(self, method: str, path: str, body: Any = None, token: str | None = TOKEN) -> tuple[int, str]:
        """Ask the server; status and text of the answer, whatever the status."""
        headers = {"Authorization": f"token {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url(path), data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        status, text = self.request("GET", path)
        assert status == 200, (status, text)
        return json.loads(text)

    def validate(self, path: str) -> dict[str, Any]:
        """What the Validate button receives for a notebook."""
        status, text = self.request("POST", f"/assignments/validate?path={urllib.request.quote(path)}")
        assert status == 200, (status, text)
        answer: dict[str, Any] = json.loads(text)
        return answer
