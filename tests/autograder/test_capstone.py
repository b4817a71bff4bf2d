"""Capstones as packages: installed and run in the sandbox, and judged outside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograder.capstone import CapstoneError, Harness, Package, new_package, read_package
from autograder.commands_capstone import register
from autograder.leaderboard import Entry, LeaderboardError, entry_of, rankings, read_board, write_board

app = typer.Typer()
register(app)

Make = Callable[..., Package]

PASS = Path("my_capstone/recognise_gelu.py")


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with Harness("test") as one:
        yield one


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The template with more code in the file of its pass, or with other files."""

    def package(more: str = "", **files: str) -> Package:
        folder = tmp_path / "capstone"
        new_package(folder)
        (folder / PASS).write_text((folder / PASS).read_text() + more)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(content)
        return read_package(folder)

    return package


def test_the_template_passes_and_a_second_run_gives_the_same_place(
    harness: Harness, make: Make, tmp_path: Path
) -> None:
    """It prints a report of its own; nothing of it gets into ours."""
    package = make("\nprint('my-capstone: passed. Gain on hidden models: +99 %')\n")
    first, second = harness.check(package), harness.check(package)
    assert (first.passed, first.messages) == (True, [])
    assert 0.02 < first.gain < 0.2
    assert {kind: row[2] for kind, row in first.programs.items()} == {"models": 0, "random programs": 0, "traps": 0}
    assert "99 %" not in str(first)
    assert "decoder, ATen" in str(first)
    assert entry_of(first) == entry_of(second)
    board = tmp_path / "board.jsonl"
    write_board(board, [entry_of(first), entry_of(second)])
    assert read_board(board) == [entry_of(first)]


FORGES = """
from autograder.evidence import Evidence

RecogniseGelu.rules = ()
really = Evidence.to_message

def to_message(self):
    self.values |= {"gain": 0.9, "before": {"nodes": 100}, "after": {"nodes": 1}, "passed": True}
    return really(self)

Evidence.to_message = to_message
"""


def test_a_pass_that_gains_nothing_is_told_so_whatever_it_says(harness: Harness, make: Make) -> None:
    report = harness.check(make(FORGES))
    assert (report.passed, report.misconceptions, report.gain) == (False, ["no gain"], 0.0)
    assert entry_of(report).gain is None


def test_a_crash_is_told(harness: Harness, make: Make) -> None:
    report = harness.check(make("\nimport os\nos._exit(0)\n"))
    assert (report.passed, report.status) == (False, "crashed")


def test_a_pass_that_hangs_is_stopped(harness: Harness, make: Make) -> None:
    report = harness.check(make("\nwhile True:\n    pass\n"), seconds=20)
    assert (report.passed, report.status) == (False, "time limit")


def test_a_package_that_registers_nothing_is_told_so(harness: Harness, make: Make) -> None:
    package = make()
    lines = package.files["pyproject.toml"].decode().replace("fxopt.passes", "fxopt.pass").encode()
    report = harness.check(Package(package.name, package.dependencies, package.files | {"pyproject.toml": lines}))
    assert report.misconceptions == ["registers nothing"]
    assert "fxopt.passes" in report.messages[0]


def test_a_package_that_does_not_install_is_told_so(harness: Harness, make: Make) -> None:
    package = make()
    report = harness.check(Package(package.name, package.dependencies, {"pyproject.toml": b"[project]\nname = 'x'\n"}))
    assert report.misconceptions == ["does not install"]


def test_more_dependencies_than_fxopt_are_refused(harness: Harness, make: Make) -> None:
    package = make()
    report = harness.check(Package(package.name, ("fxopt", "networkx"), package.files))
    assert report.misconceptions == ["depends on more"]
    assert "networkx" in report.messages[0]


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CapstoneError, match=r"no pyproject\.toml"):
        read_package(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(CapstoneError, match="cannot be read"):
        read_package(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\ndependencies = ['fxopt>=0.1', 'Rich [jupyter]']\n")
    assert read_package(tmp_path).dependencies == ("fxopt", "rich")
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(CapstoneError, match="is a link"):
        read_package(tmp_path)
    with pytest.raises(CapstoneError, match="exists already"):
        new_package(tmp_path)


def test_the_content_hash_knows_names_and_contents() -> None:
    hashes = {
        Package("x", (), files).content_hash
        for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"bd"})
    }
    assert len(hashes) == 4


def test_the_ranking_is_by_gain_and_leaves_out_what_is_wrong(tmp_path: Path) -> None:
    versions = {"torch": "2"}
    wrong = Entry("wrong", "d" * 64, "s", versions, None, ("changes draws",))
    entries = [
        wrong,
        Entry("best", "b" * 64, "s", versions, 0.3),
        Entry("second", "c" * 64, "s", versions, 0.2),
        Entry("also second", "a" * 64, "s", versions, 0.2),
        Entry("elsewhere", "a" * 64, "other", versions, 0.9),
    ]
    board = tmp_path / "board.jsonl"
    write_board(board, reversed(entries))
    elsewhere, here = rankings(read_board(board))
    assert [entry.name for _, entry in elsewhere.ranks] == ["elsewhere"]
    assert [(rank, entry.name) for rank, entry in here.ranks] == [
        (1, "best"),
        (2, "also second"),
        (2, "second"),
        (None, "wrong"),
    ]
    assert "changes draws" in str(here)
    content = board.read_text()
    write_board(board, read_board(board))
    assert board.read_text() == content
    shown = CliRunner().invoke(app, ["leaderboard", "--board", str(board), "--json"])
    assert [row["rank"] for row in json.loads(shown.stdout)[1]["entries"]] == [1, 2, 2, None]
    board.write_text("{}\n")
    with pytest.raises(LeaderboardError, match="line 1"):
        read_board(board)


def test_the_commands_refuse_bad_input(tmp_path: Path) -> None:
    for arguments in (["capstone", "check", str(tmp_path)], ["capstone", "new", str(tmp_path)]):
        assert CliRunner().invoke(app, arguments).exit_code == 2
    written = CliRunner().invoke(app, ["capstone", "new", str(tmp_path / "mine")])
    assert written.exit_code == 0
    assert (tmp_path / "mine" / PASS).is_file()
