"""The learner's package as the beginning of a capstone: what goes along, what stays, and why."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograder.capstone.capstone import new_package, read_package
from autograder.capstone.taking_over import Taken, take_over
from autograder.commands.capstone import register
from autograder.course.course import ROOT_VARIABLE

MERGING = """from fxopt_core.passes import OptimizationPass, register_pass


@register_pass("my_merging")
class Merging(OptimizationPass):
    \"\"\"Mine.\"\"\"
"""

MODULES = {
    "__init__.py": "from my_fxopt.graphs import double as double\n",
    "graphs.py": "import math\n\n\ndef double(x):\n    return 2 * math.floor(x)\n",
    "passes.py": "import torch\nfrom my_fxopt.graphs import double\n\nEIGHT = double(4)\n",
    "merge_pass.py": MERGING,
    "plots.py": "import networkx as nx\n",
    "uses_plots.py": "from my_fxopt.plots import nx\n",
    "uses_more.py": "from .uses_plots import nx\n",
    "broken.py": "def f(:\n",
    "recognise_gelu.py": "mine = True\n",
    "graphs.new.py": "import networkx\n",
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    package = tmp_path / "workspace" / "my_fxopt"
    package.mkdir(parents=True)
    for name, content in MODULES.items():
        (package / name).write_text(content)
    return package


def test_what_can_stand_alone_goes_along_and_the_rest_is_named(own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "capstone"
    new_package(folder)
    template = (folder / "my_capstone" / "recognise_gelu.py").read_text()
    taken = take_over(own, folder)
    assert taken.modules == ("graphs", "merge_pass", "passes")
    assert taken.left == {
        "plots": "it imports networkx",
        "uses_plots": "it needs plots.py, which stays behind",
        "uses_more": "it needs uses_plots.py, which stays behind",
        "broken": "line 1 is not Python",
        "recognise_gelu": "the template has a recognise_gelu.py",
    }
    assert taken.passes == ('my_merging = "my_capstone.merge_pass:Merging"',)
    assert (folder / "my_capstone" / "recognise_gelu.py").read_text() == template
    assert "# my_merging" in (folder / "pyproject.toml").read_text()
    said = " ".join(taken.lines())
    assert all(f"{name}.py" in said for name in (*taken.modules, *taken.left))
    # In a process that knows no my_fxopt.
    code = "from my_capstone.passes import EIGHT; print(EIGHT)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "8\n", done.stderr


@pytest.mark.parametrize("kind", ["pass", "capture", "cost"])
def test_without_the_mark_the_pass_is_registered(kind: str, own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "capstone"
    new_package(folder, kind)
    before = read_package(folder).kind
    take_over(own, folder)
    assert read_package(folder).kind == before == kind
    text = (folder / "pyproject.toml").read_text()
    groups = tomllib.loads(text.replace("# [project", "[project").replace("# my_", "my_"))["project"]["entry-points"]
    assert groups["fxopt.passes"]["my_merging"] == "my_capstone.merge_pass:Merging"


def test_nothing_to_take_is_nothing_to_say() -> None:
    assert Taken((), {}, ()).lines() == []


def test_the_command_takes_the_package_of_the_course(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()
    register(app)
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))
    written = CliRunner().invoke(app, ["capstone", "new", str(tmp_path / "mine")])
    assert written.exit_code == 0
    assert "graphs.py" in written.stdout
    assert "networkx" in written.stdout
    assert (tmp_path / "mine" / "my_capstone" / "graphs.py").is_file()
    # Where notebooks are built, nothing is taken.
    (tmp_path / "solutions").mkdir()
    monkeypatch.chdir(tmp_path / "solutions")
    written = CliRunner().invoke(app, ["capstone", "new", str(tmp_path / "other")])
    assert written.exit_code == 0
    assert "graphs.py" not in written.stdout
