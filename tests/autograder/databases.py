"""Databases for tests: SQLite in a file, and a PostgreSQL server of this run's own from the installed package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest


def _programs() -> Path | None:
    """The folder of PostgreSQL's programs: Debian keeps them off the path, one folder a version."""
    candidates = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ["PATH"].split(os.pathsep))]
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


def need_postgresql() -> Path:
    """The folder of PostgreSQL's programs. Without it the test is left out and says so; in CI that is a failure."""
    folder = _programs()
    if folder is None:
        message = "needs PostgreSQL's server: install the system package `postgresql`"
        (pytest.fail if "CI" in os.environ else pytest.skip)(message)
    return folder


class PostgresServer:
    """A server in a folder of its own, reached through a socket there and from nowhere else."""

    def __init__(self) -> None:
        self._programs = need_postgresql()
        # Not pytest's folder: the server refuses to run as root, and nobody else may enter that.
        self.folder = Path(tempfile.mkdtemp(prefix="fxopt-postgres-"))
        self._user = None
        if os.geteuid() == 0:
            self._user = "postgres"
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._data = self.folder / "data"
        self._numbers = count(1)
        made = [str(self._programs / "initdb"), "-A", "trust", "-U", "postgres", "-N", "-D", str(self._data)]
        subprocess.run(made, user=self._user, check=True, capture_output=True, cwd=self.folder)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-k", str(self.folder), "-h", "", "-F"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, user=self._user, stdout=log, stderr=log, cwd=self.folder, env={}, start_new_session=True
            )
        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(user="postgres", host=str(self.folder)).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill every process of it."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(user="postgres", host=str(self.folder), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://postgres@/{name}?host={self.folder}"

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gradebook.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()
