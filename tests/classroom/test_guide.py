"""The instructor's guide does what it says: its commands run, one after the other, on a small class."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest
from classroom import DAY, RIGHT, ROOT, TASK, cell
from in_process import fxopt
from small_course import SmallCourse, small

from autograder.course.rules_file import NAME, parse_rules

__all__ = ["small"]

GUIDE = (ROOT / "docs" / "instructor.md").read_text()

NOT_RUN_HERE = {"make instructor"}
"""What `test_form_grading.py` starts, in a browser."""


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.strip().splitlines()]


def test_the_rules_in_the_guide_are_rules() -> None:
    [text] = blocks("toml")
    rules = parse_rules(text.encode(), [DAY])
    assert rules.for_student("rehearsal-004", DAY).extended.days == 2
    assert rules.terms[DAY].penalty_a_day == 10


def test_every_command_of_the_guide_runs_on_a_small_class(
    small: SmallCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.course.root)
    [rules] = blocks("toml")
    (small.course.root / NAME).write_text(rules)
    environment = {"FXOPT_EXCHANGE": str(tmp_path / "exchange")}
    ran = []
    for line in commands():
        words = line.split()
        if line in NOT_RUN_HERE or words[0] == "export":
            continue
        assert words[0] == "fxopt", line
        # A small class, and one process: what is tried is the guide, not the grader.
        arguments = [{"60": "3", "2": "1"}.get(word, word) for word in words[1:]]
        if arguments[0] == "dashboard":
            assert "Day 1: compile stack" in dashboard(small, environment)
        else:
            done = fxopt(*arguments, **environment)
            assert done.exit_code == 0, (line, done.output, done.exception)
        ran.append(arguments[0])
    assert ran.count("export") == 4
    assert {"course", "exchange", "classroom", "grade", "dashboard", "regrade", "export"} == set(ran)
    rows = list(csv.DictReader((small.course.records / "points.csv").open()))
    assert [row["student"] for row in rows] == [f"rehearsal-{number:03}" for number in (1, 2, 3)]
    assert {row["state"] for row in rows} == {"graded"}
    document = json.loads((small.course.records / "points.json").read_text())
    assert [row["score"] for row in document["rows"]] == [float(row["score"]) for row in rows]
    # A class is never laid over another one, and an assignment that is none is refused by name.
    done = fxopt("classroom", "generate", "--students", "2")
    assert done.exit_code == 2
    assert "rehearsal-001 has handed in" in done.output
    assert "there is no assignment 'day1'" in fxopt("classroom", "generate", "--unit", "day1").output
    assert "SIS Login ID" in (small.course.records / "canvas.csv").read_text()
    assert (small.course.records / "moodle.csv").read_text().startswith("username")


def dashboard(small: SmallCourse, environment: dict[str, str]) -> str:
    """The page of `fxopt dashboard`, which is then stopped by Ctrl+C."""
    process = subprocess.Popen(
        small.command("dashboard", "--no-browser"),
        env=small.environment(**environment),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        page: str = urllib.request.urlopen(address[0], timeout=60).read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    return page


def test_what_the_guide_says_about_learners_commands_is_true(small: SmallCourse, tmp_path: Path) -> None:
    """The commands that stand in the text: a learner fetches, hands in, and fetches the page."""
    exchange = {"FXOPT_EXCHANGE": str(tmp_path / "exchange")}
    learner = {"FXOPT_ROOT": str(tmp_path / "learner")}
    (tmp_path / "learner" / "workspace").mkdir(parents=True)
    (tmp_path / "learner" / "curriculum").mkdir()

    def does(text: str, **environment: str) -> None:
        assert text in re.sub(r"\s+", " ", GUIDE), text
        done = fxopt(*text.split()[1:], *extra, **(exchange | environment))
        assert done.exit_code == 0, (text, done.output)

    extra: list[str] = []
    does(f"fxopt exchange release {DAY}")
    does(f"fxopt exchange fetch {DAY}", **learner)
    path = tmp_path / "learner" / "workspace" / DAY / f"{TASK.notebook}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell(notebook, TASK.answer_id).source = RIGHT
    nbformat.write(notebook, path)
    extra = ["--student", "ada"]
    does(f"fxopt exchange submit {DAY}", **learner)
    extra = ["--any-owner"]
    does(f"fxopt exchange collect {DAY}")
    done = fxopt("grade")
    assert "ada / " in done.output
    extra = []
    does(f"fxopt exchange feedback {DAY}")
    extra = ["--student", "ada"]
    does(f"fxopt exchange fetch-feedback {DAY}", **learner)
    assert list(path.parent.glob("feedback/*/*.html"))


def test_the_class_list_of_the_guide_is_read_by_nbgrader(small: SmallCourse, tmp_path: Path) -> None:
    assert "id,first_name,last_name,email,lms_user_id" in GUIDE
    listed = tmp_path / "class.csv"
    listed.write_text("id,first_name,last_name,email,lms_user_id\nada,Ada,Lovelace,ada@x.example,77\n")
    small.course.records.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "db", "student", "import", str(listed)],
        cwd=small.course.records,
        env=os.environ | {"HOME": str(tmp_path), "JUPYTER_CONFIG_DIR": str(tmp_path / "jupyter")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    small.hand_in("bob")
    assert fxopt("grade").exit_code == 0
    done = fxopt("export", "--format", "canvas")
    assert '"Lovelace, Ada",77,,ada,,' in done.output
    assert "bob,,,bob,,15" in done.output


def test_the_readme_names_the_commands_and_the_guide() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in ("make instructor", "docs/instructor.md", "fxopt export", "fxopt regrade", "fxopt dashboard"):
        assert name in readme, name
