"""The wheel holds what it should, asks for no more than it says, and runs the script of the README by itself."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("fxopt_core", "fxopt_workbench", "autograder")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # Only what a wheel is made of, so that leftovers of other builds do not get in.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)],
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_it_holds_all_packages_with_their_types_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {
        *(f"{package}/py.typed" for package in PACKAGES),
        "fxopt_core/backend.py",
        "fxopt_workbench/explorer/explorer.js",
    } <= set(names)
    template = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "autograder" / "capstone" / "template").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(name.endswith("pyproject.toml") for name in template)
    assert template <= set(names)
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == set(PACKAGES)


def test_it_asks_for_seven_packages_and_the_rest_on_request(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    required = email.message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []
    core = {re.match(r"[\w-]+", line)[0] for line in required if "extra ==" not in line}  # type: ignore[index]
    assert core == {"torch", "filelock", "numpy", "graphviz", "matplotlib", "typer", "rich"}


def test_the_script_of_the_readme_runs_on_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel)],
        check=True,
    )
    (script,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "script.py").write_text(script)
    check = "import fxopt_core, sys; assert fxopt_core.__file__.startswith(sys.argv[1]), fxopt_core.__file__\n"
    code = check + "exec(compile(open('script.py').read(), 'script.py', 'exec'))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(installed)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "relu_twice" in done.stdout
    assert done.stdout.rstrip().endswith("True")
