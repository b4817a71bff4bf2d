"""Capstones as packages: installed and run in the sandbox, and judged outside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from candidates import CANDIDATES, copied_cost_tool
from candidates import make as candidate
from typer.testing import CliRunner

from autograder.capstone import capstone
from autograder.capstone.capstone import CapstoneError, Harness, Package, new_package, read_package
from autograder.capstone.fingerprints import fingerprints, origin_of
from autograder.capstone.leaderboard import (
    Entry,
    LeaderboardError,
    entry_of,
    rankings,
    read_results,
    seed_for,
    write_results,
)
from autograder.commands.capstone import register

app = typer.Typer()
register(app)

Make = Callable[..., Package]

PASS = Path("my_capstone/recognise_gelu.py")


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    """Tries one program in forty, and the models of one family, a decoder."""
    with Harness("test2", every=40, families=1) as one:
        yield one


@pytest.fixture(scope="module")
def cost_harness() -> Iterator[Harness]:
    with Harness("test", kind="cost", every=10, families=4) as one:
        yield one


@pytest.fixture
def few_plants(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is not found by plants: they take most of the time."""
    monkeypatch.setattr(capstone, "MOST_PLANTS", 8)


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


@pytest.mark.usefixtures("few_plants")
def test_the_template_of_a_pass_is_right_and_gets_no_rank(harness: Harness, make: Make) -> None:
    """It prints a report of its own; nothing of it gets into ours."""
    report = harness.check(make("\nprint('my-capstone: passed. Gain on hidden models: +99 %')\n"))
    assert (report.passed, report.misconceptions) == (False, ["the template"])
    assert 0.01 < report.alone < 0.5
    assert report.gain == 0
    assert {kind: row[2] for kind, row in report.programs.items()} == {
        "models": 0,
        "random programs": 0,
        "traps": 0,
        "plants": 0,
    }
    assert min(row[0] for row in report.programs.values()) > 0
    assert report.programs["plants"][1] > 0, "a plant beside a rewrite that stays legal"
    assert "99 %" not in str(report)
    assert "decoder" in str(report)
    with pytest.raises(LeaderboardError, match="quick look"):
        entry_of(report)


def test_a_pass_that_finds_more_than_the_course_leads(harness: Harness, tmp_path: Path) -> None:
    report = harness.check(candidate("merged_layers", tmp_path / "merged"))
    assert (report.passed, report.messages) == (True, [])
    assert report.gain > 0.002
    assert report.programs["plants"][0] > 20
    assert report.programs["plants"][2] == 0


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("without writes", "planted write"),
        ("without modes", "planted switch"),
        ("template without dtypes", "planted dtype"),
        ("without strides", "planted strides"),
    ],
)
def test_passes_without_a_check_get_no_rank(name: str, why: str, harness: Harness, tmp_path: Path) -> None:
    report = harness.check(candidate(name, tmp_path / "mine"))
    assert not report.passed
    assert why in report.misconceptions


@pytest.mark.gate
@pytest.mark.usefixtures("few_plants")
@pytest.mark.parametrize(
    ("name", "why"), [("other_spelling", "no gain"), ("renamed", "near copy"), ("dropped_copies", None)]
)
def test_cheats_get_no_rank(name: str, why: str | None, harness: Harness, tmp_path: Path) -> None:
    report = harness.check(candidate(name, tmp_path / "mine"))
    assert not report.passed
    assert why is None or why in report.misconceptions


@pytest.mark.gate
@pytest.mark.usefixtures("few_plants")
def test_a_pass_of_the_course_under_another_name_gets_no_rank(tmp_path: Path) -> None:
    """Tried on careless code, in which there is something for it to do: what it changes is what the course changes."""
    with Harness("test5", every=40, families=1) as harness:
        report = harness.check(candidate("the_courses_own", tmp_path / "mine"))
    assert not report.passed
    assert "near copy" in report.misconceptions


@pytest.mark.parametrize("kind", ["pass", "capture", "cost"])
def test_the_tests_that_a_template_brings_pass(kind: str, tmp_path: Path) -> None:
    new_package(tmp_path / "mine", kind)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path / "mine", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.long
def test_a_right_pass_is_right_on_every_program(tmp_path: Path) -> None:
    with Harness("test") as harness:
        report = harness.check(candidate("merged_layers", tmp_path / "merged"))
    assert (report.passed, report.messages) == (True, [])
    assert report.programs["traps"][0] > 200


def test_the_template_of_a_capture_tool_gets_no_rank_and_a_second_run_gives_the_same_place(tmp_path: Path) -> None:
    new_package(tmp_path / "mine", "capture")
    package = read_package(tmp_path / "mine")
    with Harness("test", kind="capture") as harness:
        first, second = harness.check(package), harness.check(package)
        with pytest.raises(ValueError, match="tries a capture"):
            harness.check(Package("x", (), {}))
    assert (first.status, first.misconceptions) == ("wrong", ["the template"])
    assert 0.2 < first.gain < 0.5
    assert "steps in a loop" in str(first)
    assert entry_of(first) == entry_of(second)
    assert entry_of(first).gain is None


def test_the_template_of_a_cost_tool_is_right_and_gains_nothing_over_itself(
    cost_harness: Harness, tmp_path: Path
) -> None:
    new_package(tmp_path / "mine", "cost")
    report = cost_harness.check(read_package(tmp_path / "mine"))
    assert (report.misconceptions, report.gain) == (["the template"], 0.0)
    assert report.programs["models"][2] == 0


def test_a_tool_that_imports_what_it_is_to_write_is_told_so(cost_harness: Harness, tmp_path: Path) -> None:
    new_package(tmp_path / "mine", "cost")
    module = tmp_path / "mine" / "my_capstone" / "count_products.py"
    module.write_text(module.read_text() + "\nfrom fxopt_core.costs import analyze_graph\n")
    report = cost_harness.check(read_package(tmp_path / "mine"))
    assert report.misconceptions == ["withheld import"]
    assert "fxopt_core.costs" in report.messages[0]


def test_a_cost_tool_that_is_the_courses_own_gets_no_rank(cost_harness: Harness, tmp_path: Path) -> None:
    package = copied_cost_tool(tmp_path / "mine")
    origin = origin_of(package.files, "own_cost")
    assert origin.copied
    assert origin.source.startswith("fxopt_core.costs")
    assert not cost_harness.check(package).passed


def test_fingerprints_see_through_names_and_layout_and_tell_own_code_apart() -> None:
    one = """
def f(values):
    found = []
    for value in values:
        if value > 3:
            found.append(value * 2)
        elif value < 0 and value not in found:
            found += [value - 1, value + len(values)]
        else:
            print("nothing", value, sep=" ")
    return sorted(found)[0]
"""
    other = (
        one.replace("values", "things")
        .replace("value", "thing")
        .replace("found", "result")
        .replace("\n    return", "\n\n    return")
    )
    assert fingerprints(one) == fingerprints(other) != frozenset()
    assert fingerprints("not python at all (") == frozenset()
    for name in CANDIDATES:
        source = CANDIDATES[name]()[0].encode()
        origin = origin_of({"my_capstone/one.py": source}, "own_pass")
        assert origin.copied == (name == "renamed"), (name, origin)
        assert origin.nothing_own == (name in ("template", "template without dtypes")), (name, origin)


FORGES = """
from autograder.exchange.evidence import Evidence

RecogniseGelu.rules = ()
really = Evidence.to_message

def to_message(self):
    self.values |= {"gain": 0.9, "before": {"nodes": 100}, "after": {"nodes": 1}, "passed": True}
    return really(self)

Evidence.to_message = to_message
"""


@pytest.mark.usefixtures("few_plants")
def test_a_pass_that_gains_nothing_is_told_so_whatever_it_says(harness: Harness, make: Make) -> None:
    report = harness.check(make(FORGES))
    assert (report.passed, report.gain, report.alone) == (False, 0.0, 0.0)
    assert report.misconceptions[0] in ("no gain", "the template")


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


VERSIONS = {"torch": "2"}


def entry(name: str, content: str, gain: float | None, *, kind: str = "pass", seed: str = "s", **more: Any) -> Entry:
    return Entry(name, kind, content * 64, seed, VERSIONS, gain, **more)


def test_the_ranking_is_by_gain_and_leaves_out_what_is_wrong() -> None:
    entries = [
        entry("wrong", "d", None, why_not=("changes draws",)),
        entry("best", "b", 0.3),
        entry("second", "c", 0.2),
        entry("also second", "a", 0.2),
        entry("a copy of the best", "b", 0.3),
        entry("elsewhere", "a", 0.9, seed="other"),
        entry("a tool", "a", 0.9, kind="capture"),
    ]
    tools, elsewhere, here = rankings(reversed(entries))
    assert [one.name for _, one in tools.ranks] == ["a tool"]
    assert [one.name for _, one in elsewhere.ranks] == ["elsewhere"]
    assert [(rank, one.name) for rank, one in here.ranks] == [
        (1, "a copy of the best = best"),
        (2, "also second"),
        (2, "second"),
        (None, "wrong"),
    ]
    assert "changes draws" in str(here)


def test_results_are_signed_and_a_line_that_somebody_edited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.jsonl"
    first, second = entry("first", "a", 0.2), entry("second", "b", 0.1)
    write_results(file, [first, second, entry("second", "c", 0.15)], "secret")
    assert [one.gain for one in read_results(file, "secret")] == [0.2, 0.15]
    assert read_results(tmp_path / "none", "secret") == []
    content = file.read_text()
    with pytest.raises(LeaderboardError, match=r"line 1 \(first\) is not as this course wrote it"):
        read_results(file, "another secret")
    file.write_text(content.replace("0.15", "0.99"))
    with pytest.raises(LeaderboardError, match=r"line 2 \(second\) is not as"):
        read_results(file, "secret")
    (tmp_path / "course").mkdir()
    monkeypatch.setenv("FXOPT_ROOT", str(tmp_path / "course"))
    monkeypatch.setenv("FXOPT_SEED", "secret")
    shown = CliRunner().invoke(app, ["leaderboard", "--results", str(file), "--json"])
    assert shown.exit_code == 2
    file.write_text(content)
    shown = CliRunner().invoke(app, ["leaderboard", "--results", str(file), "--json"])
    assert [row["rank"] for row in json.loads(shown.stdout)[0]["entries"]] == [1, 2]
    file.write_text("{}\n")
    with pytest.raises(LeaderboardError, match="line 1 is not a result"):
        read_results(file, "secret")


def test_hidden_models_change_with_the_packages_and_with_the_secret() -> None:
    one, other = Package("one", (), {"a": b"1"}), Package("other", (), {"a": b"2"})
    seeds = {seed_for([one]), seed_for([other]), seed_for([one, other]), seed_for([one], "secret")}
    assert len(seeds) == 4
    assert seed_for([one, other]) == seed_for([other, one, one])


def test_the_commands_refuse_bad_input(tmp_path: Path) -> None:
    for arguments in (["capstone", "check", str(tmp_path)], ["capstone", "new", str(tmp_path)]):
        assert CliRunner().invoke(app, arguments).exit_code == 2
    written = CliRunner().invoke(app, ["capstone", "new", str(tmp_path / "mine")])
    assert written.exit_code == 0
    assert (tmp_path / "mine" / PASS).is_file()
