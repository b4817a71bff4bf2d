"""The learner's package: answers go there, edits stay, later days find them, and grading uses the references."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from classroom import RIGHT, Classroom
from classroom import TASK as GRADED

from autograder.course.own_package import ExportError, export_answer
from autograder.course.task import UNITS
from autograder.course.tasks import find_task
from autograder.lab.lab import prepare
from autograder.learner_side import own_functions
from autograder.learner_side.own_functions import (
    earlier_exports,
    exports,
    own_module,
    reference_module,
    stand_in,
    use,
)
from autograder.learner_side.withheld import withheld_use

TASK = find_task("operation_histogram")
ANSWER = "from collections import Counter\n\ndef operation_histogram(graph_modules):\n    return Counter({'MINE': 1})"
OTHER = replace(TASK, name="another", provides=("another",))


@pytest.fixture
def workspace(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = classroom.course.workspace
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in sys.modules if name.split(".")[0] == own_functions.PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def module_text(workspace: Path) -> str:
    return (workspace / "my_fxopt" / f"{TASK.export}.py").read_text()


def test_an_answer_is_saved_and_used_and_the_package_imports(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use("operation_histogram")
    assert capsys.readouterr().out == "operation_histogram: the reference's\n"
    assert export_answer(TASK, [ANSWER], workspace) == "Saved `operation_histogram` to my_fxopt/graphs.py"
    assert use("operation_histogram")([])["MINE"] == 1
    assert capsys.readouterr().out == "operation_histogram: yours, from my_fxopt/graphs.py\n"
    code = "from my_fxopt import operation_histogram as f; print(f([]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=workspace, capture_output=True, text=True, check=False)
    assert "MINE" in done.stdout, done.stderr


def test_an_answer_again_replaces_that_function_only(workspace: Path) -> None:
    export_answer(TASK, [ANSWER], workspace)
    export_answer(OTHER, ["import math", "def another():\n    return math.pi"], workspace)
    path = workspace / "my_fxopt" / "graphs.py"
    path.write_text(path.read_text() + "\n\n# a note of mine\ndef my_own():\n    return 1\n")
    before = module_text(workspace)
    assert export_answer(TASK, [ANSWER.replace("1", "22")], workspace).startswith("Saved")
    assert module_text(workspace) == before.replace("'MINE': 1", "'MINE': 22")
    assert module_text(workspace).count("import") == 2
    assert use("operation_histogram")([])["MINE"] == 22


def test_an_edited_function_is_never_overwritten(workspace: Path) -> None:
    export_answer(TASK, [ANSWER], workspace)
    path = workspace / "my_fxopt" / "graphs.py"
    path.write_text(path.read_text().replace("'MINE': 1", "'MINE': 5"))
    said = export_answer(TASK, [ANSWER.replace("1", "2")], workspace)
    assert said.startswith("You changed my_fxopt/graphs.py yourself")
    assert "'MINE': 5" in module_text(workspace)
    assert "'MINE': 2" in (workspace / "my_fxopt" / "graphs.new.py").read_text()
    # What is the same as the learner's file needs no second file.
    assert export_answer(TASK, [ANSWER.replace("1", "5")], workspace).startswith("Saved")


def test_a_file_that_is_no_python_any_more_stays(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_answer(TASK, [ANSWER], workspace)
    (workspace / "my_fxopt" / "graphs.py").write_text("def operation_histogram(:")
    assert export_answer(TASK, [ANSWER], workspace).startswith("You changed")
    assert module_text(workspace) == "def operation_histogram(:"
    use("operation_histogram")
    assert "the reference's (my_fxopt/graphs.py cannot be imported: SyntaxError" in capsys.readouterr().out


def test_a_helper_of_another_answer_is_not_replaced(workspace: Path) -> None:
    export_answer(TASK, [ANSWER.replace("1}", "help_me()}"), "def help_me():\n    return 1"], workspace)
    with pytest.raises(ExportError, match="`help_me` there belongs to the task operation_histogram"):
        export_answer(OTHER, ["def another():\n    return help_me()", "def help_me():\n    return 2"], workspace)
    export_answer(OTHER, ["def another():\n    return help_me()", "def help_me():\n    return 1"], workspace)
    assert module_text(workspace).count("def help_me") == 1


def test_a_helper_that_two_answers_share_changes_with_both(workspace: Path) -> None:
    first = ANSWER.replace("1}", "help_me()}")
    second, helper = "def another():\n    return help_me()", "def help_me():\n    return 1"
    export_answer(TASK, [first, helper], workspace)
    export_answer(OTHER, [first, second, helper], workspace)
    changed = helper.replace("1", "7")
    # The same notebook gives both answers the new helper; a notebook without the other answer does not.
    with pytest.raises(ExportError, match="`help_me` there belongs to the task another"):
        export_answer(TASK, [first, changed], workspace)
    export_answer(TASK, [first, second, changed], workspace)
    assert "return 7" in module_text(workspace)
    assert "return 1" not in module_text(workspace)
    export_answer(OTHER, [first, second, changed], workspace)
    with pytest.raises(ExportError, match="`help_me` there belongs to the task operation_histogram"):
        export_answer(OTHER, [second, helper], workspace)


def test_a_check_that_passes_saves_the_answer(classroom: Classroom, workspace: Path) -> None:
    source = (TASK.folder / "reference.py").read_text()
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({"import torch"!r}, store_history=True)
shell.run_cell({source!r}, store_history=True)
shell.run_cell("from autograder import check; print(check.{TASK.unit}.{TASK.name}({TASK.provides[0]}))",
               store_history=True)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=workspace, capture_output=True, text=True, check=False)
    assert "Saved `operation_histogram` to my_fxopt/graphs.py." in done.stdout, done.stdout + done.stderr
    assert "def operation_histogram" in module_text(workspace)


def test_notebooks_of_the_lab_can_import_the_package_and_shadow_no_library(
    workspace: Path, classroom: Classroom
) -> None:
    export_answer(TASK, [ANSWER], workspace)
    (workspace / "math.py").write_text("raise ImportError('a file of the learner')")
    (workspace / "torch.py").write_text("raise ImportError('a file of the learner')")
    start = prepare(classroom.course, 8888, browser=False)
    code = "import math, torch.version; from my_fxopt import operation_histogram as f; print(f([]))"
    command = [sys.executable, "-m", "IPython", "-c", code]
    folder = workspace / "day"
    folder.mkdir()
    done = subprocess.run(command, cwd=folder, env=start.environment, capture_output=True, text=True, check=False)
    assert "MINE" in done.stdout, done.stdout + done.stderr


def test_outside_the_workspace_there_is_no_package(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_answer(TASK, [ANSWER], workspace)
    monkeypatch.chdir(workspace.parent)
    assert own_module(TASK) is None


def test_the_references_are_what_grading_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == own_functions.PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    stand_in([TASK])
    import my_fxopt.graphs  # type: ignore[import-not-found]
    from my_fxopt import operation_histogram  # type: ignore[import-not-found]

    assert operation_histogram is my_fxopt.graphs.operation_histogram
    assert operation_histogram.__module__ == reference_module(TASK)
    assert withheld_use(operation_histogram, (reference_module(TASK),)) == reference_module(TASK)
    with pytest.raises(ImportError):
        from my_fxopt import measure  # noqa: F401


USES = """
from autograder.learner_side.own_functions import use
from my_fxopt import conv_output_shape

run_graph = use("run_graph")
print(run_graph.__module__, conv_output_shape((1, 3, 8, 8), 4, (3, 3), (1, 1), (0, 0), (1, 1)))
for name in ("GraphRecorder", "operation_histogram"):
    try:
        use(name)
        print("found", name)
    except ImportError as error:
        print("refused", name)
"""


@pytest.mark.parametrize("kind", ["sandboxed", "plain"])
def test_a_graded_notebook_gets_the_references_of_earlier_days_only(
    kind: str, room: Classroom, request: pytest.FixtureRequest
) -> None:
    grader = request.getfixturevalue(kind)
    outcome, outputs = grader.grade(GRADED, room.cells(USES + RIGHT))
    assert outcome.status == "passed", outcome.messages
    [printed] = [output["text"] for output in outputs[GRADED.answer_id]]
    assert printed.splitlines() == [
        "run_graph: the reference's",
        "autograder.exercises.day0.run_graph.reference (1, 4, 6, 6)",
        "refused GraphRecorder",
        "refused operation_histogram",
    ]


def test_names_are_exported_once_and_to_modules_that_are_names() -> None:
    assert all(task.export.isidentifier() for task in exports().values())
    assert len(exports()) == sum(len(task.provides) for task in set(exports().values()))
    for unit in UNITS:
        assert all(list(UNITS).index(task.unit) < list(UNITS).index(unit) for task in earlier_exports(unit))
    with pytest.raises(LookupError, match=r"Did you mean .*operation_histogram"):
        use("operation_histogramm")


@pytest.mark.parametrize("name", sorted(exports()))
def test_references_need_the_course_no_more(name: str) -> None:
    """What is exported is the start of the capstone, which depends on `fxopt_core` only."""
    text = (exports()[name].folder / "reference.py").read_text()
    assert "autograder" not in text
    namespace: dict = {}
    exec(compile(text, "reference", "exec"), namespace)
    assert callable(namespace[name])


def test_the_package_can_be_built(workspace: Path, tmp_path: Path) -> None:
    export_answer(TASK, [ANSWER], workspace)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    done = subprocess.run([*build, "./my_fxopt"], cwd=workspace, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("*.whl")] == ["my_fxopt-0.1.0-py3-none-any.whl"]
