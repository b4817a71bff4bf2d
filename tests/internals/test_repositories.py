"""Repositories to practise on: commits, review and bisection, and that they touch nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fxopt_workbench.internals import repositories
from fxopt_workbench.internals.histories import (
    BAD_SERIES,
    FAULT_SUBJECT,
    GOOD_SERIES,
    LENGTH,
    TEST_FILE,
    TEST_SCRIPT,
    history,
)
from fxopt_workbench.internals.repositories import Change, RepositoryError, make_repository, review

PASSES = (sys.executable, "-c", "pass")


def test_the_planned_series_passes_and_the_other_one_does_not(tmp_path: Path) -> None:
    tests = (sys.executable, TEST_FILE)
    good = review(make_repository(tmp_path / "good", GOOD_SERIES), tests)
    assert {mark for row in good.rows for mark in row[1:]} == {"yes"}
    bad = review(make_repository(tmp_path / "bad", BAD_SERIES), tests)
    objections = {row[0].split()[0]: row[1:] for row in bad.rows}
    assert objections == {
        "WIP": ("NO", "NO", "yes", "yes", "NO"),
        "fix": ("NO", "NO", "yes", "NO", "yes"),
        "Update": ("NO", "NO", "NO", "NO", "yes"),
        "more": ("NO", "NO", "yes", "yes", "yes"),
    }


def test_both_series_end_with_the_same_code(tmp_path: Path) -> None:
    ends = [make_repository(tmp_path / str(n), one) for n, one in enumerate((GOOD_SERIES, BAD_SERIES))]
    good, bad = ((one.folder / "ops" / "smooth.py").read_text().split() for one in ends)
    assert good == bad


@pytest.mark.parametrize(
    ("subject", "passes"),
    [
        ("Add an operator", True),
        ("Fix the sign of the second derivative of tanh", True),
        ("Review the tolerance of half precision in gradcheck", True),
        ("Update", False),
        ("fixes", False),
        ("wip 2", False),
        ("Add an operator.", False),
        ("Add " + "a" * 69, False),
    ],
)
def test_a_first_line_says_what_changes(tmp_path: Path, subject: str, passes: bool) -> None:
    [row] = review(make_repository(tmp_path / "one", [Change(f"{subject}\n\nWhy.", {"a.md": "a"})]), PASSES).rows
    assert row[1] == ("yes" if passes else "NO")


def test_bisection_finds_the_planted_fault(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "history", history())
    test = tmp_path / "test.py"
    test.write_text(TEST_SCRIPT)
    log = repository.log()
    assert len(log) == LENGTH
    found = repository.bisect(log[0].name, log[-1].name, ("env", "PYTHONPATH=.", sys.executable, str(test)))
    assert found.culprit is not None
    assert found.culprit.subject == FAULT_SUBJECT
    assert len(found.tested) <= 8
    assert {answer for _, answer in found.tested} == {"good", "bad", "skip"}
    # Afterwards the repository stands where it stood.
    assert repository.git("status", "--porcelain", "--branch").startswith("## main")


def test_where_skips_hide_it_there_is_no_culprit(tmp_path: Path) -> None:
    changes = [Change(f"Change {number}", {"a.txt": str(number)}) for number in range(4)]
    repository = make_repository(tmp_path / "hidden", changes)
    names = [commit.name for commit in repository.log()]
    script = "import sys; sys.exit({'0': 0, '3': 1}.get(open('a.txt').read(), 125))"
    found = repository.bisect(names[0], names[-1], (sys.executable, "-c", script))
    assert found.culprit is None
    assert [answer for _, answer in found.tested] == ["skip", "skip"]


def test_repositories_are_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_repository(tmp_path / "first", GOOD_SERIES).log()
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n")
    second = make_repository(tmp_path / "second", GOOD_SERIES).log()
    assert first == second
    assert not (tmp_path / "elsewhere").exists()


def test_what_git_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "one", GOOD_SERIES)
    with pytest.raises(RepositoryError, match="git show nothing says: fatal"):
        repository.git("show", "nothing")
    with pytest.raises(RepositoryError, match="one is not empty"):
        make_repository(tmp_path / "one", GOOD_SERIES)
    monkeypatch.setattr(repositories.shutil, "which", lambda name: None)
    with pytest.raises(RepositoryError, match="git is not installed"):
        repository.git("status")
