"""`fxopt doctor` says of each bound whether it holds, and never that one holds which does not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from classroom import need_bubblewrap

from autograder.grading import bounds
from autograder.grading.system_calls import Filter
from fxopt_workbench.doctor import OK, WARNING


def test_without_a_sandbox_nothing_is_said_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "bubblewrap", lambda: None)
    found = bounds.check_bounds()
    assert (found.status, "bubblewrap" in found.fix) == (WARNING, True)


def test_a_filter_and_namespaces_that_are_absent_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "bubblewrap", lambda: "bwrap")
    monkeypatch.setattr(bounds, "learner_filter", lambda: Filter(b"", "libseccomp is not here"))
    monkeypatch.setattr(bounds, "refusal_here", lambda: "unshare: Operation not permitted")
    found = bounds.check_bounds()
    assert found.status == WARNING
    assert "libseccomp is not here" in found.detail
    assert "unshare: Operation not permitted" in found.detail
    monkeypatch.setattr(bounds, "learner_filter", lambda: Filter(b"x"))
    monkeypatch.setattr(bounds, "refusal_here", lambda: "")
    assert bounds.check_bounds().status == OK


def test_the_kernel_is_really_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    need_bubblewrap()
    assert bounds.refusal_here() == ""
    without_rights = bounds.bubblewrap_command
    monkeypatch.setattr(bounds, "bubblewrap_command", lambda view, limits, warm: without_rights(view, limits))
    assert "Operation not permitted" in bounds.refusal_here()


def test_doctor_finds_the_check() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "autograder.grading.bounds:check_bounds" in project["project"]["entry-points"]["fxopt.doctor"].values()
