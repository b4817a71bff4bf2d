"""Releases: the same twice, without a solution or a stray file, and refused when a source is malformed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import nbformat
import pytest
from nbgrader import api

from autograder.authoring import release as making
from autograder.authoring.release import check, normalise, release
from autograder.course.course import Course
from autograder.course.judges import judge_module
from autograder.course.notebooks import grade_id
from autograder.course.sources import ReleaseError, read_source, sources
from autograder.course.tasks import all_tasks

ROOT = Path(__file__).parents[2]

HEADER = (
    "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: Python 3\n#     language: python\n#     name: python3\n"
    "# ---\n"
)


def solution_cell(name: str, body: str) -> str:
    metadata = (
        f'{{"grade": false, "grade_id": "{name}", "locked": false, "schema_version": 3, '
        '"solution": true, "task": false}'
    )
    return f"\n# %% nbgrader={metadata}\n{body}\n"


def check_cell(name: str) -> str:
    metadata = (
        f'{{"grade": true, "grade_id": "{name}", "locked": true, "points": 2, "schema_version": 3, '
        '"solution": false, "task": false}'
    )
    return f"\n# %% nbgrader={metadata}\nassert answer() == 42\n"


CANARY = "canary_of_the_solution"

ANSWER = textwrap.dedent(
    f"""
    def answer() -> int:
        \"\"\"The answer.\"\"\"
        ### BEGIN SOLUTION
        {CANARY} = 42
        return {CANARY}
        ### END SOLUTION
    """
).strip()

SOURCE = HEADER + "\n# %% [markdown]\n# # Hello\n" + solution_cell("task-answer", ANSWER) + check_cell("task")


@pytest.fixture
def small(tmp_path: Path) -> Course:
    """A course of one day with one small exercise."""
    course = Course(tmp_path / "small")
    (course.solutions / "day").mkdir(parents=True)
    (course.solutions / "day" / "ex.py").write_text(SOURCE)
    for package in ("fxopt_core", "fxopt_workbench", "autograder"):
        (course.root / package).mkdir()
    return course


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def released(course: Course, folder: Path) -> dict[str, bytes]:
    return {str(name): path.read_bytes() for name, path in release(course, folder)}


def test_two_releases_are_identical(small: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "get_alembic_version", lambda: pytest.fail("a process of seconds for each release"))
    first = released(small, tmp_path / "one")
    assert first == released(small, tmp_path / "two")
    assert list(first) == ["day/ex.ipynb"]


def test_the_solution_is_replaced_by_a_stub_that_raises(small: Course, tmp_path: Path) -> None:
    notebook = nbformat.reads(released(small, tmp_path)["day/ex.ipynb"].decode(), 4)
    sources = {grade_id(cell): cell.source for cell in notebook.cells}
    assert CANARY not in "".join(cell.source for cell in notebook.cells)
    assert "raise NotImplementedError" in sources["task-answer"]
    assert "def answer() -> int:" in sources["task-answer"]
    namespace: dict[str, object] = {}
    exec(sources["task-answer"], namespace)
    with pytest.raises(NotImplementedError):
        namespace["answer"]()  # type: ignore[operator]


def test_nothing_else_of_the_folder_is_released(small: Course, tmp_path: Path) -> None:
    for name in ("notes.txt", "answers.json", "key.ipynb", "data.csv", ".hidden"):
        (small.solutions / "day" / name).write_text(CANARY)
    making.build(small)
    assert set(files(small.curriculum)) == {"day/ex.ipynb"}
    for content in files(small.curriculum).values():
        assert CANARY.encode() not in content


def test_build_executes_once_and_again_only_when_something_changed(small: Course) -> None:
    first = making.build(small)
    assert (first.executed, first.kept, first.released) == (["ex"], [], ["day/ex.ipynb"])
    before = files(small.root)
    second = making.build(small)
    assert (second.executed, second.kept, second.released) == ([], ["ex"], [])
    assert files(small.root) == before
    assert check(small).stale == []

    source = small.solutions / "day" / "ex.py"
    source.write_text(SOURCE.replace("# # Hello", "# # Hallo"))
    assert any("day/ex.ipynb differs" in line for line in check(small).stale)
    begun: list[tuple[str, int, int]] = []
    assert making.build(small, begins=lambda *told: begun.append(told)).executed == ["ex"]
    assert begun == [("ex", 1, 1)]
    assert check(small).stale == []
    assert making.build(small, begins=lambda *told: begun.append(told)).kept == ["ex"]
    assert begun == [("ex", 1, 1)], "what is kept is not executed, and not announced"


def test_a_cell_that_fails_stops_the_build_and_writes_nothing(small: Course) -> None:
    (small.solutions / "day" / "ex.py").write_text(SOURCE.replace(f"{CANARY} = 42", f"{CANARY} = 41"))
    with pytest.raises(ReleaseError, match="AssertionError"):
        making.build(small)
    assert not small.curriculum.exists()
    assert not list(small.solutions.rglob("*.ipynb"))


def test_out_of_step_is_seen(small: Course) -> None:
    making.build(small)
    student = small.curriculum / "day" / "ex.ipynb"
    good = student.read_bytes()

    student.write_bytes(good.replace(b"Hello", b"Hand-edited"))
    assert check(small).stale == ["curriculum/day/ex.ipynb differs from its source"]
    student.write_bytes(good)
    (small.curriculum / "day" / "extra.txt").write_text("x")
    assert check(small).stale == ["curriculum/day/extra.txt has no source"]
    making.build(small)
    assert set(files(small.curriculum)) == {"day/ex.ipynb"}
    student.unlink()
    assert check(small).stale == ["curriculum/day/ex.ipynb does not exist"]
    student.write_bytes(good)
    (small.solutions / "day" / "ex.ipynb").unlink()
    assert check(small).stale == ["solutions/day/ex.ipynb does not exist"]


MALFORMED = {
    "an answer without a region": (
        HEADER + solution_cell("task-answer", "def answer():\n    return 42") + check_cell("task"),
        "the answer cell 'task-answer' has no solution region",
    ),
    "an id that is there twice": (SOURCE + check_cell("task"), "the nbgrader id 'task' is used twice"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_sources_are_refused(small: Course, tmp_path: Path, name: str) -> None:
    source, message = MALFORMED[name]
    (small.solutions / "day" / "ex.py").write_text(source)
    with pytest.raises(ReleaseError, match=message):
        list(release(small, tmp_path / "made"))
    with pytest.raises(ReleaseError, match=r"ex\.py"):
        check(small)


def test_cell_ids_are_names_or_hashes_of_sources(small: Course) -> None:
    path = small.solutions / "day" / "ex.py"
    ids = [cell["id"] for cell in read_source(path).cells]
    assert ids[1:] == ["task-answer", "task"]
    path.write_text(SOURCE + "\n# %%\nx = 1\n\n# %%\nx = 1\n")
    longer = [cell["id"] for cell in read_source(path).cells]
    assert longer[:3] == ids
    assert longer[4] == f"{longer[3]}-2"


def test_what_varies_is_taken_out_of_outputs(tmp_path: Path) -> None:
    text = (
        f"<f at 0x7f12ab34cd56> {tmp_path}/x.py /tmp/ipykernel_12/34.py /tmp/torchinductor_me/ab/c.py {Path.home()}/y"
    )
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=text),
        nbformat.v4.new_output("display_data", data={"text/plain": text, "image/png": "abcd"}),
        nbformat.v4.new_output("error", ename="E", evalue="e", traceback=[text]),
    ]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    normalise(notebook, tmp_path)
    shown = nbformat.writes(notebook)
    for varying in ("0x7f12", str(tmp_path), "ipykernel_12", "torchinductor_me", str(Path.home())):
        assert varying not in shown
    assert "<repository>/x.py" in shown
    assert cell.outputs[1].data["image/png"] == "abcd"


def packed(text: str) -> str:
    """Text without indentation and empty lines."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def solution_regions(source: str) -> list[str]:
    """The solution regions of a source that are telling: more than a word or two."""
    regions = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", source, re.DOTALL)
    return [packed(region) for region in regions if len(packed(region)) > 25]


def test_the_real_release_holds_no_solution_no_hidden_case_and_no_message_of_a_judge(tmp_path: Path) -> None:
    course = Course(ROOT)
    made = released(course, tmp_path)
    assert {f"{path.parent.name}/{path.stem}.ipynb" for path in sources(course)} == set(made)
    notebooks = [nbformat.reads(content.decode(), 4) for content in made.values()]
    # Hints may show a line of an answer: they are text, and unfold.
    text = packed("\n".join(cell.source for book in notebooks for cell in book.cells if cell.cell_type == "code"))
    assert "BEGIN SOLUTION" not in text
    secrets = [region for path in sources(course) for region in solution_regions(path.read_text())]
    assert secrets
    for task in all_tasks():
        secrets += judge_module(task).MISCONCEPTIONS.values()
        secrets.append("def hidden_cases")
        for answer in (task.folder / "right").glob("*.py"):
            secrets.append(packed(answer.read_text()))
    leaked = [secret for secret in secrets if secret in text]
    assert leaked == []
    assert not any(cell.get("outputs") for book in notebooks for cell in book.cells)


def test_a_source_that_is_edited_while_it_is_executed_is_executed_again(
    small: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = small.solutions / "day" / "ex.py"

    def edited_meanwhile(*arguments: object) -> list[Path]:
        source.write_text(SOURCE.replace("# # Hello", "# # Good day"))
        return []

    monkeypatch.setattr(making, "execute", edited_meanwhile)
    assert making.build(small).executed == ["ex"]
    assert "Hello" in source.with_suffix(".ipynb").read_text()
    assert making.build(small).executed == ["ex"]
    assert "Good day" in source.with_suffix(".ipynb").read_text()
    assert making.build(small).kept == ["ex"]
