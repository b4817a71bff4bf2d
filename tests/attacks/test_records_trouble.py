"""What stands in the way of recording: one line with the file and what to do, exit code 2, and nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import typer
from databases import PostgresServer, postgres
from small_course import SmallCourse, small

from autograder.commands import grade as command
from autograder.records import database
from autograder.records.verdicts import VerdictStore

__all__ = ["postgres", "small"]

WRONG = "class GraphRecorder:\n    pass"

WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all")
"""In front of a command: root then has no more rights over files than anybody else."""


ALONE = ("unshare", "--user", "--map-root-user", "--mount")
"""In front of a command: what it mounts is there for itself only."""


def one_line(said: str, *parts: str) -> None:
    """There is one line, which begins with the command, holds these parts, and quotes no program."""
    assert said.startswith("fxopt: "), said
    assert said.count("\n") == 1, said
    assert "Traceback" not in said
    assert "sqlalche" not in said
    assert len(said) < 700
    for part in parts:
        assert part in said, (part, said)


def refused(small: SmallCourse, capsys: pytest.CaptureFixture[str]) -> str:
    """Grade in this process; what the refusal said."""
    capsys.readouterr()
    with pytest.raises(typer.Exit) as ended:
        command.run(None, None, False)
    assert ended.value.exit_code == 2
    return capsys.readouterr().err


def gradebook_file(small: SmallCourse) -> Path:
    return small.course.records / "gradebook.db"


def settled(small: SmallCourse) -> None:
    """One submission is graded, and another one waits."""
    small.hand_in("ada")
    command.run(None, None, False)
    small.hand_in("bob", WRONG)


def all_is_well(small: SmallCourse) -> None:
    """What was graded stayed, and what waited is graded now."""
    command.run(None, None, False)
    assert (small.points("ada"), small.points("bob")) == (15.0, 0.0)
    with VerdictStore(small.course.database) as store:
        assert [(found.student, found.points) for found in store.latest()] == [("ada", 15.0), ("bob", 0.0)]
    scratch = [path for path in small.course.records.rglob(".*") if path.is_file()]
    assert scratch == [], "half-written files"


def noise(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 : len(content) - 4096] = os.urandom(len(content) - 8192)
    file.write_bytes(content)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def text(file: Path) -> None:
    file.write_text("name,points\nada,15\n" * 100)


def another_program(file: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE moz_places (url TEXT)")


def changed(statement: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        with sqlite3.connect(file) as connection:
            connection.execute(statement)
        connection.close()

    return change


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


SPOILT: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "noise": (noise, ("damaged", "put a copy of it back")),
    "truncated": (truncated, ("damaged", "put a copy of it back")),
    "text": (text, ("this is not a gradebook", "put a copy of it back")),
    "another program's": (another_program, ("another program's database", "moz_places", "--database")),
    "older": (changed("UPDATE alembic_version SET version_num = '50a4d84c131a'"), ("older", "nbgrader db upgrade")),
    "of no version": (changed("DROP TABLE alembic_version"), ("older", "nbgrader db upgrade")),
    "newer": (changed("UPDATE alembic_version SET version_num = 'ffff00000000'"), ("another nbgrader", "install")),
    "a column short": (changed("ALTER TABLE grade DROP COLUMN extra_credit"), ("table grade lacks extra_credit",)),
    "a table short": (changed("DROP TABLE comment"), ("table comment lacks", "nbgrader")),
    "of another fxopt": (changed("ALTER TABLE fxopt_verdict DROP COLUMN details"), ("another version of fxopt",)),
    "a folder": (folder, ("this is a folder",)),
}


@pytest.fixture
def spoilt(small: SmallCourse) -> Iterator[Callable[[Callable[[Path], None]], None]]:
    settled(small)
    file = gradebook_file(small)
    copy = file.with_suffix(".copy")
    shutil.copy(file, copy)

    def spoil(how: Callable[[Path], None]) -> None:
        for path in file.parent.glob("gradebook.db*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copy(copy, file)
        how(file)

    yield spoil
    spoil(lambda _: None)
    all_is_well(small)


def test_a_gradebook_that_cannot_be_used_is_named_and_left_as_it_is(
    small: SmallCourse, spoilt: Callable[[Callable[[Path], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    file = gradebook_file(small)
    for name, (how, expected) in SPOILT.items():
        spoilt(how)
        before = file.read_bytes() if file.is_file() else b""
        one_line(refused(small, capsys), str(file), *expected)
        assert (file.read_bytes() if file.is_file() else b"") == before, name


def test_a_gradebook_that_another_program_holds(
    small: SmallCourse, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(small)
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.1)
    browser = sqlite3.connect(gradebook_file(small), isolation_level=None)
    browser.execute("BEGIN EXCLUSIVE")
    one_line(refused(small, capsys), "gradebook.db: another program holds this gradebook locked; close")
    browser.execute("ROLLBACK")
    browser.close()
    all_is_well(small)


@pytest.mark.parametrize("part", ["autograded", "feedback", "received", "outcomes"])
def test_a_file_where_a_folder_belongs(small: SmallCourse, capsys: pytest.CaptureFixture[str], part: str) -> None:
    settled(small)
    place, aside = small.course.records / part, small.course.records / f"{part}.aside"
    place.rename(aside)
    place.write_text("mine")
    one_line(refused(small, capsys), str(place), "there is a file where a folder belongs; move it away")
    assert place.read_text() == "mine"
    place.unlink()
    aside.rename(place)
    all_is_well(small)


@contextmanager
def closed(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(before)
        for beside in path.parent.glob("gradebook.db-*"):  # SQLite makes them with the rights of the gradebook
            beside.chmod(0o644)


def test_what_may_not_be_read_or_written(small: SmallCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.fail("as root this needs `setpriv` (of the system package util-linux)")
    before = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    settled(small)
    records, file = small.course.records, gradebook_file(small)
    monkeypatch.delenv("FXOPT_SEED")
    seed = records / "seed"
    seed.write_text("seed")
    for path, mode, named in (
        # First: afterwards SQLite's files beside the gradebook are there, and nothing must be made in this folder.
        (records, 0o555, str(records)),
        (file, 0o444, "gradebook.db: the gradebook (or what lies beside it: -wal, -shm) or its folder is read-only"),
        (file, 0o000, "gradebook.db: the gradebook cannot be opened"),
        (records / "feedback" / "ada", 0o555, None),
        (records / "outcomes" / "bob" / "day1_compile_stack", 0o555, "outcomes"),
        (seed, 0o000, "seed: no permission"),
    ):
        with closed(path, mode):
            environment = small.environment()
            del environment["FXOPT_SEED"]
            done = subprocess.run(
                [*before, *small.command("grade")], env=environment, capture_output=True, text=True, check=False
            )
        if named is None:  # nothing of hers is written
            assert done.returncode == 0, done.stderr
            small.hand_in("bob", WRONG)
            continue
        assert done.returncode == 2, (path, done.stdout, done.stderr)
        one_line(done.stderr, named)
    all_is_well(small)


def test_a_disk_that_is_full(small: SmallCourse, tmp_path: Path) -> None:
    """A real one: a small file system in memory, mounted for this command alone."""
    settled(small)
    place = tmp_path / "disk"
    place.mkdir()
    kept = tmp_path / "kept"
    script = """
        set -e
        mount -t tmpfs -o size="$1" tmpfs "$2"
        cp -r "$3"/. "$2"
        if [ "$1" != 64m ]; then
            head -c 1G /dev/zero >"$2/filler" 2>/dev/null || true
            truncate -s -"$4" "$2/filler"
        fi
        shift 4
        "$@" || code=$?
        rm -f "$place/filler"
        cp -r "$place/course" "$kept"
        exit ${code:-0}
    """
    said = []
    for size, room in (("8m", "0"), ("8m", "64K"), ("8m", "400K"), ("64m", "0")):
        shutil.rmtree(kept, ignore_errors=True)
        done = subprocess.run(
            [*ALONE, "sh", "-c", script, "sh", size, place, small.course.root, room, *small.command("grade")],
            env=small.environment(FXOPT_ROOT=str(place), place=str(place), kept=str(kept)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 2:
            one_line(done.stderr, str(place), "no space is left", "free some")
            said.append(done.stderr)
        else:
            assert done.returncode == 0, done.stderr
        # The course as it was left there is whole.
        shutil.rmtree(small.course.records)
        shutil.copytree(kept, small.course.records)
    assert len(said) >= 2
    all_is_well(small)


def test_a_file_that_would_grow_too_large(small: SmallCourse) -> None:
    settled(small)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        small.command("grade"),
        env=small.environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small_files,
    )
    assert done.returncode == 2
    one_line(done.stderr, str(small.course.records))
    all_is_well(small)


def test_a_server_that_cannot_be_used(
    small: SmallCourse,
    postgres: PostgresServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = postgres.database()
    monkeypatch.setenv("FXOPT_DATABASE", url.replace("postgresql+psycopg:", "postgresql:"))
    settled(small)

    def with_url(changed: str) -> str:
        monkeypatch.setenv("FXOPT_DATABASE", changed)
        said = refused(small, capsys)
        assert "secret" not in said
        return said

    one_line(with_url(url.replace("/test", "/absent")), "no such database", "create it")
    one_line(with_url(url.replace("postgres@", "nobody:secret@")), "no such database or user", "nobody:***@")
    one_line(with_url("postgresql://me@/x?host=/nowhere"), "the database does not answer", "start it")
    one_line(with_url("mysql://me@host/name"), "--database mysql", "postgresql://USER@HOST/NAME")
    one_line(with_url("gradebook.db"), "no URL of a database", "sqlite:////FOLDER/gradebook.db")
    with psycopg.connect(user="postgres", host=str(postgres.folder), autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
    one_line(with_url(url.replace("postgres@", "reader@")), "may not write here", "grant it the right")
    postgres.kill()
    one_line(with_url(url), "the database does not answer", "start it")
    postgres.start()
    monkeypatch.setenv("FXOPT_DATABASE", url)
    all_is_well(small)


def test_what_a_learner_made_unreadable_costs_nobody_else(
    small: SmallCourse, capsys: pytest.CaptureFixture[str]
) -> None:
    settled(small)
    before = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    small.hand_in("eve")
    with closed(small.course.submitted / "eve" / "day1_compile_stack", 0o000):
        done = small.run("grade", before=before)
    assert done.returncode == 1
    assert "eve / -: not graded: " in done.stdout
    assert "bob / ex_01" in done.stdout
    assert done.stderr == ""
