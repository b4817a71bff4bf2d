"""The workspace: nothing of the learner's is ever lost, and new versions arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.course.workspace import WorkspaceError, WorkspaceReport, fill_workspace, fingerprint

NAME = "day1/lesson.ipynb"


def code(cell_id: str, source: str, **further: Any) -> dict[str, Any]:
    return {
        "id": cell_id,
        "cell_type": "code",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    } | further


def write_notebook(path: Path, *cells: dict[str, Any], **metadata: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return cells


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, except what belongs to the tools."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".fxopt" not in path.parts
    }


class Course:
    """A released course and a workspace, both in a temporary folder."""

    def __init__(self, root: Path) -> None:
        self.curriculum = root / "curriculum"
        self.workspace = root / "workspace"
        self.release(code("a", "x = 1"), code("b", "y = 2"))

    def release(self, *cells: dict[str, Any], **metadata: Any) -> None:
        write_notebook(self.curriculum / NAME, *cells, **metadata)

    def fill(self) -> WorkspaceReport:
        return fill_workspace(self.curriculum, self.workspace)

    @property
    def theirs(self) -> Path:
        return self.workspace / NAME

    @property
    def beside(self) -> Path:
        return self.workspace / "day1" / "lesson.new.ipynb"

    def run_cells(self) -> None:
        """What JupyterLab writes when every cell is run: outputs, counts, metadata; and sources as lists of lines."""
        cells = cells_of(self.theirs)
        for count, cell in enumerate(cells, start=1):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [f"ran {cell['id']}"]}]
            cell["execution_count"] = count
            cell["metadata"]["execution"] = {"iopub.status.busy": "2026"}
            cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
        write_notebook(self.theirs, *cells, kernelspec={"name": "python3"}, language_info={"version": "3.12"})

    def answer(self, source: str = "x = 41 + 1") -> None:
        cells = cells_of(self.theirs)
        cells[0]["source"] = source
        write_notebook(self.theirs, *cells)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def test_first_fill_copies_everything_and_the_second_does_nothing(course: Course) -> None:
    (course.curriculum / "day1" / "data.csv").write_bytes(b"\xff\x00binary")
    (course.curriculum / "day1" / ".ipynb_checkpoints").mkdir()
    (course.curriculum / "day1" / ".ipynb_checkpoints" / "old.ipynb").write_text("{}")
    report = course.fill()
    assert report.added == ["day1/data.csv", NAME]
    assert report.lines() == ["2 files added to the workspace"]
    assert contents(course.workspace) == {
        name: content for name, content in contents(course.curriculum).items() if "checkpoints" not in name
    }

    stamps = {path: path.stat().st_mtime_ns for path in course.workspace.rglob("*") if path.suffix != ".json"}
    assert course.fill() == WorkspaceReport()
    for path, stamp in stamps.items():
        if path.is_file():
            assert path.stat().st_mtime_ns == stamp


def test_links_of_the_table_of_contents_lead_into_the_workspace(course: Course) -> None:
    page = course.curriculum.parent / "Week1.md"
    page.write_text(
        f"[lesson](curriculum/{NAME}) [again](./curriculum/{NAME}) [angle](<curriculum/{NAME}>) "
        "`curriculum/` [away](https://example.org/curriculum/x) [readme](README.md)\n"
    )
    course.fill()
    assert (course.workspace / "Week1.md").read_text() == (
        f"[lesson]({NAME}) [again]({NAME}) [angle](<{NAME}>) "
        "`curriculum/` [away](https://example.org/curriculum/x) [readme](README.md)\n"
    )


def test_a_link_to_a_heading_is_one_that_jupyterlab_follows(course: Course) -> None:
    root = course.curriculum.parent
    (root / "Week1.md").write_text("[2](#day-2-fx-c) [no](#nowhere) [x](nb.ipynb#day-2-fx-c)\n\n### Day 2: FX, C++\n")
    (root / "Internals.md").write_text("[how](Week1.md#day-2-fx-c) [out](https://example.org/#day-2-fx-c)\n")
    fill_workspace(course.curriculum, course.workspace)
    assert (
        (course.workspace / "Week1.md")
        .read_text()
        .startswith("[2](Week1.md#Day-2:-FX,-C++) [no](#nowhere) [x](nb.ipynb#day-2-fx-c)\n")
    )
    assert (course.workspace / "Internals.md").read_text() == (
        "[how](Week1.md#Day-2:-FX,-C++) [out](https://example.org/#day-2-fx-c)\n"
    )


def test_running_a_notebook_is_no_change_and_outputs_survive_an_update(course: Course) -> None:
    course.fill()
    course.run_cells()
    ran = course.theirs.read_bytes()
    assert course.fill() == WorkspaceReport()
    assert course.theirs.read_bytes() == ran

    course.release(code("a", "x = 1"), code("b", "y = 3"), code("c", "z = 4"))
    report = course.fill()
    assert report.lines() == [f"{NAME}: updated to the new version (you had not changed it)"]
    kept, changed, new = cells_of(course.theirs)
    assert kept["outputs"][0]["text"] == ["ran a"]
    assert kept["execution_count"] == 1
    assert changed["source"] == "y = 3"
    assert changed["outputs"] == []
    assert changed["execution_count"] is None
    assert new["source"] == "z = 4"
    assert not course.beside.exists()


def test_new_metadata_alone_arrives_without_a_word(course: Course) -> None:
    course.fill()
    course.run_cells()
    course.release(code("a", "x = 1", metadata={"nbgrader": {"points": 5}}), code("b", "y = 2"))
    assert course.fill().lines() == []
    first, _ = cells_of(course.theirs)
    assert first["metadata"]["nbgrader"] == {"points": 5}
    assert first["outputs"][0]["text"] == ["ran a"]


def test_a_changed_notebook_stays_and_the_new_version_is_laid_beside_it_once(course: Course) -> None:
    course.fill()
    course.answer()
    mine = course.theirs.read_bytes()
    assert course.fill() == WorkspaceReport()
    assert not course.beside.exists(), "there is no new version yet"

    course.release(code("a", "x = 1"), code("b", "y = 3"))
    report = course.fill()
    assert report.kept == [(NAME, "day1/lesson.new.ipynb")]
    assert "you changed this file" in report.lines()[0]
    assert "lesson.new.ipynb" in report.lines()[0]
    assert course.theirs.read_bytes() == mine
    assert course.beside.read_bytes() == (course.curriculum / NAME).read_bytes()

    course.beside.unlink()
    assert course.fill() == WorkspaceReport()
    assert not course.beside.exists(), "one offer is enough"

    course.release(code("a", "x = 1"), code("b", "y = 4"))
    assert course.fill().kept == [(NAME, "day1/lesson.new.ipynb")]
    course.release(code("a", "x = 1"), code("b", "y = 5"))
    assert course.fill().kept == [(NAME, "day1/lesson.new.ipynb")]
    assert cells_of(course.beside)[1]["source"] == "y = 5", "an untouched offer gives way to the next"
    assert course.theirs.read_bytes() == mine


def test_work_done_in_the_offered_copy_is_not_overwritten_either(course: Course) -> None:
    course.fill()
    course.answer()
    course.release(code("a", "x = 1"), code("b", "y = 3"))
    course.fill()
    write_notebook(course.beside, code("a", "my answer, moved here"), code("b", "y = 3"))
    theirs = course.beside.read_bytes()
    course.release(code("a", "x = 1"), code("b", "y = 4"))
    assert course.fill().kept == [(NAME, "day1/lesson.new-2.ipynb")]
    assert course.beside.read_bytes() == theirs


def test_taking_the_offered_copy_over_ends_the_matter(course: Course) -> None:
    course.fill()
    course.answer()
    course.release(code("a", "x = 1"), code("b", "y = 3"))
    course.fill()
    course.beside.replace(course.theirs)
    assert course.fill() == WorkspaceReport()
    course.release(code("a", "x = 1"), code("b", "y = 4"))
    assert course.fill().updated == [NAME]


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: [cells[1], cells[0]],
        lambda cells: cells[:1],
        lambda cells: [*cells, code("mine", "print('note')")],
        lambda cells: [cells[0] | {"cell_type": "markdown"}, cells[1]],
        lambda cells: [cells[0] | {"id": "other"}, cells[1]],
    ],
    ids=["order", "removed", "added", "type", "id"],
)
def test_each_kind_of_change_counts(course: Course, change: Any) -> None:
    course.fill()
    write_notebook(course.theirs, *change(cells_of(course.theirs)))
    mine = course.theirs.read_bytes()
    course.release(code("a", "x = 9"))
    assert len(course.fill().kept) == 1
    assert course.theirs.read_bytes() == mine


@pytest.mark.parametrize("damage", [b"", b'{"cells": [', b"\x80\x81", b"[]", b'{"cells": 3}'])
def test_a_damaged_notebook_counts_as_changed(course: Course, damage: bytes) -> None:
    course.fill()
    course.theirs.write_bytes(damage)
    assert course.fill() == WorkspaceReport()
    course.release(code("a", "x = 9"))
    assert course.fill().kept == [(NAME, "day1/lesson.new.ipynb")]
    assert course.theirs.read_bytes() == damage


def test_a_deleted_file_is_brought_back_and_said(course: Course) -> None:
    course.fill()
    course.theirs.unlink()
    assert course.fill().lines() == [f"{NAME}: was missing and has been brought back"]
    assert course.theirs.read_bytes() == (course.curriculum / NAME).read_bytes()


def test_files_of_the_learner_are_never_touched(course: Course) -> None:
    course.fill()
    mine = course.workspace / "day1" / "mine.ipynb"
    mine.write_text("not even JSON")
    (course.workspace / "notes.txt").write_text("remember")
    write_notebook(course.curriculum / "day1" / "mine.ipynb", code("a", "theirs"))
    report = course.fill()
    assert mine.read_text() == "not even JSON"
    assert report.kept == [("day1/mine.ipynb", "day1/mine.new.ipynb")]
    assert (course.workspace / "notes.txt").read_text() == "remember"
    assert course.fill() == WorkspaceReport()


def test_other_files_go_by_their_content(course: Course) -> None:
    released = course.curriculum / "day1" / "table.txt"
    released.write_text("one")
    course.fill()
    released.write_text("two")
    assert course.fill().updated == ["day1/table.txt"]
    (course.workspace / "day1" / "table.txt").write_text("mine")
    released.write_text("three")
    assert course.fill().kept == [("day1/table.txt", "day1/table.new.txt")]
    assert (course.workspace / "day1" / "table.txt").read_text() == "mine"


def test_a_withdrawn_file_stays_and_is_said_once(course: Course) -> None:
    write_notebook(course.curriculum / "day1" / "old.ipynb", code("a", "x"))
    course.fill()
    (course.curriculum / "day1" / "old.ipynb").unlink()
    assert course.fill().lines() == ["day1/old.ipynb: no longer part of the course; your copy stays"]
    assert (course.workspace / "day1" / "old.ipynb").exists()
    assert course.fill() == WorkspaceReport()


class Interrupted(BaseException):
    """Stands for a power cut or a kill."""


@pytest.mark.parametrize("new_version_meanwhile", [False, True])
def test_a_run_interrupted_at_any_write_leaves_nothing_half_written_and_the_next_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_version_meanwhile: bool
) -> None:
    """The run is cut in each of its writes in turn, at the moment when new content would take the place of old."""
    real_replace = Path.replace
    for cut in range(100):
        course = Course(tmp_path / str(cut))
        write_notebook(course.curriculum / "day1" / "second.ipynb", code("s", "1"))
        course.fill()
        course.run_cells()
        write_notebook(course.workspace / "day1" / "second.ipynb", code("s", "my answer"))
        course.release(code("a", "x = 1"), code("b", "y = 3"))
        write_notebook(course.curriculum / "day1" / "second.ipynb", code("s", "2"))
        write_notebook(course.curriculum / "day1" / "third.ipynb", code("t", "3"))

        writes = 0

        def cut_replace(source: Path, target: Path, cut: int = cut) -> Path:
            nonlocal writes
            if writes == cut:
                raise Interrupted
            writes += 1
            return real_replace(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", cut_replace)
            try:
                course.fill()
                break
            except Interrupted:
                pass
        for path in course.workspace.rglob("*.ipynb"):
            assert cells_of(path), "each notebook is whole at every moment"
        if new_version_meanwhile:
            course.release(code("a", "x = 1"), code("b", "y = 4"))
        course.fill()
        kept, changed = cells_of(course.theirs)
        assert kept["outputs"][0]["text"] == ["ran a"]
        assert changed["source"] == ("y = 4" if new_version_meanwhile else "y = 3")
        assert not course.beside.exists(), "what was interrupted does not pass for the learner's change"
        assert cells_of(course.workspace / "day1" / "second.ipynb")[0]["source"] == "my answer"
        assert cells_of(course.workspace / "day1" / "second.new.ipynb")[0]["source"] == "2"
        assert cells_of(course.workspace / "day1" / "third.ipynb")[0]["source"] == "3"
        assert course.fill() == WorkspaceReport()
    else:
        pytest.fail("a run never ended")
    assert cut >= 6, "the run has that many writes at least, so each of them was cut"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 99, "files": {}}', '{"version": 1, "files": {"a": 3}}'])
def test_a_damaged_manifest_loses_nothing(course: Course, damage: str) -> None:
    course.fill()
    course.answer()
    mine = course.theirs.read_bytes()
    (course.workspace / ".fxopt" / "manifest.json").write_text(damage)
    report = course.fill()
    assert "manifest.json" in report.remarks[0]
    assert course.theirs.read_bytes() == mine
    assert report.kept == [(NAME, "day1/lesson.new.ipynb")]
    assert course.fill() == WorkspaceReport()


def test_a_course_that_was_not_built_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"curriculum is not there.*make notebooks"):
        fill_workspace(tmp_path / "curriculum", tmp_path / "workspace")


def test_a_broken_release_is_named_and_touches_nothing(course: Course) -> None:
    course.fill()
    (course.curriculum / "day1" / "broken.ipynb").write_text("{")
    before = contents(course.workspace)
    course.release(code("a", "x = 9"))
    with pytest.raises(WorkspaceError, match=r"broken\.ipynb is not a notebook"):
        course.fill()
    assert contents(course.workspace) == before


def test_a_file_where_a_folder_must_be_is_named(course: Course) -> None:
    course.workspace.mkdir()
    (course.workspace / "day1").write_text("a file of mine")
    with pytest.raises(WorkspaceError, match=r"day1 is a file.*rename or move"):
        course.fill()
    assert (course.workspace / "day1").read_text() == "a file of mine"


def test_a_folder_or_a_dangling_link_in_a_notebooks_place_is_left_alone(course: Course) -> None:
    course.theirs.mkdir(parents=True)
    (course.theirs / "inside").write_text("mine")
    write_notebook(course.curriculum / "day1" / "linked.ipynb", code("a", "x"))
    (course.workspace / "day1" / "linked.ipynb").symlink_to("nowhere")
    assert [name for name, _ in course.fill().kept] == [NAME, "day1/linked.ipynb"]
    assert (course.theirs / "inside").read_text() == "mine"
    assert (course.workspace / "day1" / "linked.ipynb").is_symlink()


def test_fingerprint_sees_ids_types_and_sources_only(tmp_path: Path) -> None:
    one, other = tmp_path / "one.ipynb", tmp_path / "other.ipynb"
    write_notebook(one, code("a", "x\ny"))
    write_notebook(other, code("a", "", outputs=[{}]) | {"source": ["x\n", "y"]}, kernelspec={})
    assert fingerprint("n.ipynb", one.read_bytes()) == fingerprint("n.ipynb", other.read_bytes())
    assert fingerprint("n.txt", one.read_bytes()) != fingerprint("n.txt", other.read_bytes())
