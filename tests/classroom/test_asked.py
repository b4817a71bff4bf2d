"""What commands say of a student, an assignment or a folder that is not there; and of a class that has not begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from classroom import DAY, TASK
from in_process import fxopt
from small_course import SmallCourse, small

__all__ = ["small"]


def test_a_class_that_has_handed_in_nothing_is_told_so(small: SmallCourse) -> None:
    for options in ((), ("--student", "ada"), ("--unit", DAY)):
        done = fxopt("grade", *options)
        assert done.exit_code == 0, done.output
        assert done.stdout.endswith("Nothing was handed in yet.\n")


def test_names_that_are_not_there_are_refused_with_near_ones(small: SmallCourse) -> None:
    assert fxopt("grade", "--unit", "nope").exit_code == 2, "also where nothing was handed in"
    small.hand_in("ada")
    for command in (("grade",), ("grade", "--force"), ("regrade", TASK.name)):
        done = fxopt(*command, "--student", "adda")
        assert done.exit_code == 2
        assert done.stderr == "fxopt: --student adda: nobody of this name has handed anything in. Did you mean 'ada'?\n"
        assert "So far there is work by ada." in fxopt(*command, "--student", "xyz").stderr
    done = fxopt("grade", "--unit", DAY[:-1], "--force")
    assert done.exit_code == 2
    assert done.stderr == f"fxopt: --unit {DAY[:-1]}: there is no such assignment. Did you mean {DAY!r}?\n"
    assert f"The assignments are {DAY}" in fxopt("grade", "--unit", "nope").stderr
    graded = fxopt("grade", "--student", "ada", "--unit", DAY)
    assert graded.exit_code == 0, graded.output
    assert f"ada / {TASK.notebook}" in graded.stdout


def test_who_has_handed_in_something_else_is_no_mistake(small: SmallCourse) -> None:
    small.hand_in("ada")
    (small.course.submitted / "bob" / "day0_start").mkdir(parents=True)
    done = fxopt("grade", "--student", "bob", "--unit", DAY)
    assert done.exit_code == 0, done.output
    assert f"Nothing was handed in yet for {DAY} by bob." in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("export", "--out"),
        ("mutate", TASK.name, "--json"),
        ("gate", TASK.name, "--json"),
        ("bench", "grading", "--json"),
        ("capstone", "check", ".", "--report"),
        ("leaderboard", "--results"),
        ("site", "--out"),
    ],
    ids=" ".join,
)
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_the_work(
    small: SmallCourse, tmp_path: Path, command: tuple[str, ...]
) -> None:
    target = tmp_path / "absent" / "out.json"
    done = fxopt(*command, str(target))
    assert done.exit_code == 2
    assert done.stderr == (
        f"fxopt: {command[-1]} {target}: the folder {target.parent} does not exist; create it first.\n"
    )
    assert not target.parent.exists()


def test_without_a_deadline_no_days_are_late(small: SmallCourse) -> None:
    assert json.loads(fxopt("course", "check", "--json").stdout)["assignments"][DAY]["late_days"] is None
