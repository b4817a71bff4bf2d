"""Capstones as packages: installed and run in the sandbox, and judged outside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograder.capstone.capstone import CapstoneError, Harness, Package, new_package, read_package
from autograder.capstone.leaderboard import Entry, LeaderboardError, entry_of, rankings, read_board, write_board
from autograder.commands.capstone import register

app = typer.Typer()
register(app)

Make = Callable[..., Package]

PASS = Path("my_capstone/recognise_gelu.py")


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    """Tries one program in ten."""
    with Harness("test", every=10) as one:
        yield one


@pytest.fixture(scope="module")
def cost_harness() -> Iterator[Harness]:
    with Harness("test", kind="cost") as one:
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


def test_the_template_of_a_pass_passes(harness: Harness, make: Make) -> None:
    """It prints a report of its own; nothing of it gets into ours."""
    report = harness.check(make("\nprint('my-capstone: passed. Gain on hidden models: +99 %')\n"))
    assert (report.passed, report.messages) == (True, [])
    assert 0.02 < report.gain < 0.5
    assert {kind: row[2] for kind, row in report.programs.items()} == {"models": 0, "random programs": 0, "traps": 0}
    assert min(row[0] for row in report.programs.values()) > 0
    assert "99 %" not in str(report)
    assert "decoder, torch" in str(report)
    with pytest.raises(LeaderboardError, match="quick look"):
        entry_of(report)


@pytest.mark.parametrize("kind", ["pass", "capture", "cost"])
def test_the_tests_that_a_template_brings_pass(kind: str, tmp_path: Path) -> None:
    new_package(tmp_path / "mine", kind)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.gate
def test_the_template_of_a_pass_passes_on_every_program(make: Make) -> None:
    with Harness("test") as harness:
        report = harness.check(make())
    assert (report.passed, report.messages) == (True, [])
    assert report.programs["traps"][0] > 200
    assert 0.02 < report.gain < 0.2


def test_the_template_of_a_capture_tool_passes_and_a_second_run_gives_the_same_place(tmp_path: Path) -> None:
    new_package(tmp_path / "mine", "capture")
    package = read_package(tmp_path / "mine")
    with Harness("test", kind="capture") as harness:
        first, second = harness.check(package), harness.check(package)
        with pytest.raises(ValueError, match="tries a capture"):
            harness.check(Package("x", (), {}))
    assert (first.passed, first.messages) == (True, [])
    assert 0.2 < first.gain < 0.5
    assert "steps in a loop" in str(first)
    assert entry_of(first) == entry_of(second)
    board = tmp_path / "board.jsonl"
    write_board(board, [entry_of(first), entry_of(second)])
    assert read_board(board) == [entry_of(first)]


def test_the_template_of_a_cost_tool_is_right_and_gains_nothing_over_itself(
    cost_harness: Harness, tmp_path: Path
) -> None:
    new_package(tmp_path / "mine", "cost")
    report = cost_harness.check(read_package(tmp_path / "mine"))
    assert (report.misconceptions, report.gain) == (["no gain"], 0.0)
    assert report.programs["models"][2] == 0


def test_a_tool_that_imports_what_it_is_to_write_is_told_so(cost_harness: Harness, tmp_path: Path) -> None:
    new_package(tmp_path / "mine", "cost")
    module = tmp_path / "mine" / "my_capstone" / "count_products.py"
    module.write_text(module.read_text() + "\nfrom fxopt_core.costs import analyze_graph\n")
    report = cost_harness.check(read_package(tmp_path / "mine"))
    assert report.misconceptions == ["withheld import"]
    assert "fxopt_core.costs" in report.messages[0]


FORGES = """
from autograder.exchange.evidence import Evidence

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


def test_a_crash_is_told(harness: Harness, make: Make) -> None:
    report = harness.check(make("\nimport os\nos._exit(0)\n"))
    assert (report.passed, report.status) == (False, "crashed")


def test_a_pass_that_hangs_is_stopped(harness: Harness, make: Make) -> None:
    report = harness.check(make("\nwhile True:\n    pass\n"), seconds=10)
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
    with pytest.raises(CapstoneError, match="expected pass, capture, cost"):
        new_package(tmp_path / "new", "parser")
    both = tmp_path / "both"
    new_package(both)
    (both / "pyproject.toml").write_text(
        (both / "pyproject.toml").read_text() + '\n[project.entry-points."fxopt.costs"]\nx = "my_capstone:x"\n'
    )
    with pytest.raises(CapstoneError, match="a pass and a cost"):
        read_package(both)


def test_the_content_hash_knows_names_and_contents() -> None:
    hashes = {
        Package("x", (), files).content_hash
        for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"bd"})
    }
    assert len(hashes) == 4


def test_the_ranking_is_by_gain_and_leaves_out_what_is_wrong(tmp_path: Path) -> None:
    versions = {"torch": "2"}
    wrong = Entry("wrong", "pass", "d" * 64, "s", versions, None, ("changes draws",))
    entries = [
        wrong,
        Entry("best", "pass", "b" * 64, "s", versions, 0.3),
        Entry("second", "pass", "c" * 64, "s", versions, 0.2),
        Entry("also second", "pass", "a" * 64, "s", versions, 0.2),
        Entry("elsewhere", "pass", "a" * 64, "other", versions, 0.9),
        Entry("a tool", "capture", "a" * 64, "s", versions, 0.9),
    ]
    board = tmp_path / "board.jsonl"
    write_board(board, reversed(entries))
    tools, elsewhere, here = rankings(read_board(board))
    assert [entry.name for _, entry in tools.ranks] == ["a tool"]
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
    assert [row["rank"] for row in json.loads(shown.stdout)[2]["entries"]] == [1, 2, 2, None]
    board.write_text("{}\n")
    with pytest.raises(LeaderboardError, match="line 1"):
        read_board(board)


def test_the_commands_refuse_bad_input(tmp_path: Path) -> None:
    for arguments in (["capstone", "check", str(tmp_path)], ["capstone", "new", str(tmp_path)]):
        assert CliRunner().invoke(app, arguments).exit_code == 2
    written = CliRunner().invoke(app, ["capstone", "new", str(tmp_path / "mine")])
    assert written.exit_code == 0
    assert (tmp_path / "mine" / PASS).is_file()
