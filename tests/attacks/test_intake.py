"""What a folder of submissions may hold, and what must come of it: nothing is followed, waited for or lost."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import DAY, RIGHT, TASK, Classroom, cell, outcome_of, stand_in
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from autograder.course.course import Course, course_config
from autograder.course.notebooks import grade_id
from autograder.course.reading import CELL_LIMIT, UnreadableNotebookError, parse_notebook, read_notebook
from autograder.grading import work
from autograder.records import gradebook, nbgrader_plugin
from autograder.records.intake import IntakeError, check_student, look_into, received

FILE = f"{TASK.notebook}.ipynb"


@pytest.fixture
def room(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A course of a test's own in which `stand_in` judges."""
    monkeypatch.setattr(work, "grade_notebook", stand_in)
    return classroom


def right(room: Classroom) -> bytes:
    return json.dumps(room.answered(RIGHT)).encode()


def folder_of(room: Classroom, who: str) -> Path:
    folder = room.course.submitted / who / DAY
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def link_to_another(room: Classroom, folder: Path) -> None:
    (folder / FILE).symlink_to(room.course.submitted / "good" / DAY / FILE)


def hard_link(room: Classroom, folder: Path) -> None:
    other = room.course.root / "another.ipynb"
    other.write_bytes(right(room))
    os.link(other, folder / FILE)


def link_to_the_solution(room: Classroom, folder: Path) -> None:
    solution = room.course.solutions / DAY / FILE
    solution.write_bytes(right(room))
    (folder / FILE).symlink_to(solution)


def named_pipe(room: Classroom, folder: Path) -> None:
    os.mkfifo(folder / FILE)


def device(room: Classroom, folder: Path) -> None:
    os.mknod(folder / FILE, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def unix_socket(room: Classroom, folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # an address is at most some hundred bytes long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(FILE)
    finally:
        os.chdir(here)


def folder_in_its_place(room: Classroom, folder: Path) -> None:
    (folder / FILE).mkdir()


NO_POINTS: dict[str, tuple[Callable[[Classroom, Path], None], str]] = {
    "link to another's answer": (link_to_another, "a link to another file"),
    "hard link to another's answer": (hard_link, "a hard link"),
    "link to the solution": (link_to_the_solution, "a link to another file"),
    "named pipe": (named_pipe, "no regular file"),
    "device": (device, "no regular file"),
    "socket": (unix_socket, "cannot be opened"),
    "folder": (folder_in_its_place, "this is a folder"),
}


def test_what_is_no_file_of_its_own_gains_nothing_and_is_named(room: Classroom) -> None:
    room.place(right(room), "good")
    tried = {}
    for number, (name, (make, expected)) in enumerate(NO_POINTS.items()):
        if name == "device" and os.geteuid() != 0:
            continue
        make(room, folder_of(room, f"student{number}"))
        tried[f"student{number}"] = (name, expected)
    graded = room.grade()
    assert outcome_of(graded["good"])["status"] == "passed"
    assert len(tried) >= len(NO_POINTS) - 1
    for who, (name, expected) in tried.items():
        outcome = graded[who].outcome
        assert outcome is not None, (name, graded[who].failure)
        assert expected in outcome["problems"][0], name
        assert not any(task["points"] for task in outcome["tasks"]), name
        assert expected in room.feedback(who), name


def test_what_lies_beside_a_notebook_is_named_and_goes_nowhere(room: Classroom) -> None:
    course = room.course
    secret = course.records / "seed"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("THE-SECRET-SEED")
    folder = room.place(right(room), "curious").parent
    for name, target in {
        "seed.txt": secret,
        "book.db": course.records / "gradebook.db",
        "all": course.solutions,
        "figure.svg": secret,
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    (folder / "data").mkdir()
    (folder / "data" / "seed").symlink_to(secret)
    (folder / "notes.txt").write_text("mine")
    # As nbgrader's own button grades it, too.
    for grade in (lambda: room.grade()["curious"], lambda: room.grade(force=True)["curious"]):
        graded = grade()
        assert outcome_of(graded)["status"] == "passed", graded
        assert graded.outcome is not None
        [problem] = graded.outcome["problems"]
        assert "left aside" in problem
        assert "all, book.db" in problem
    kept = [path for part in ("received", "autograded", "feedback") for path in (course.records / part).rglob("*")]
    assert {path.name for path in kept if path.is_file()} <= {FILE, FILE.replace("ipynb", "html"), "timestamp.txt"}
    assert not any(path.is_symlink() for path in kept)
    assert not any("THE-SECRET-SEED" in path.read_text() for path in kept if path.is_file())


def test_nbgraders_own_commands_grade_what_was_taken_in(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    course = room.course
    room.place(right(room), "good")
    link_to_the_solution(room, folder_of(room, "thief"))
    (folder_of(room, "good") / "solutions").symlink_to(course.solutions)
    gradebook.prepare_gradebook(course)
    from nbgrader.apps import api, autogradeapp

    for module in (api, autogradeapp):
        monkeypatch.setattr(module, "Autograde", module.Autograde)  # put back afterwards
    nbgrader_plugin.grade_what_was_received()
    config = course_config(course)
    directory = CourseDirectory(config=config)
    with_button = NbGraderAPI(directory, config=config)
    for who, points in (("good", True), ("thief", False)):
        result = with_button.autograde(DAY, who)
        assert result["success"], result
        found = gradebook.recorded_points(course, who, DAY, TASK.notebook)
        assert found is not None
        assert bool(found[0]) == points
    assert not (course.records / "autograded" / "good" / DAY / "solutions").exists()


@pytest.mark.parametrize(
    "name",
    ["../me", "a/b", "", ".", "..", ".hidden", "-rf", "a\nb", "[a]", "a*", "a?", "x" * 65, "a,b", "<b>", 'a"b', "{a}"],
)
def test_a_students_name_means_only_itself(name: str) -> None:
    with pytest.raises(IntakeError, match="cannot be a student's name"):
        check_student(name)


@pytest.mark.parametrize("name", ["me", "zoë", "a.b", "jane.doe@example.org", "s123456", "李雷", "O'Neil 2"])
def test_ordinary_names_are_names(name: str) -> None:
    check_student(name)


def test_odd_names_cost_nobody_else_a_grade(room: Classroom) -> None:
    room.place(right(room), "good")
    for name in ("[!a]", "*", "a\nb", "<img src=x onerror=alert(1)>"):
        room.place(right(room), name)
    (room.course.submitted / "linked").symlink_to(room.course.submitted / "good")
    folder_of(room, "day_linked").rmdir()
    (room.course.submitted / "day_linked" / DAY).symlink_to(room.course.submitted / "good" / DAY)
    (room.course.submitted / "stray.txt").write_text("a file among the students")
    graded = list(gradebook.grade(room.course))
    assert outcome_of(next(item for item in graded if item.student == "good"))["status"] == "passed"
    refused = [item for item in graded if item.student != "good"]
    assert len(refused) == 4
    for item in refused:
        assert "cannot be a student's name" in item.failure
        assert "\n" not in item.failure + item.student
    assert not any(item.student in ("linked", "day_linked") for item in graded)


def encoded(room: Classroom, encoding: str) -> bytes:
    return json.dumps(room.answered(RIGHT), ensure_ascii=False).encode(encoding)


def windows_lines(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    for item in notebook.cells:
        item.source = item.source.replace("\n", "\r\n")
    return json.dumps(notebook, indent=1).replace("\n", "\r\n").encode()


def with_values(**values: Any) -> Callable[[Classroom], bytes]:
    def make(room: Classroom) -> bytes:
        notebook = room.answered(RIGHT)
        for item in notebook.cells:
            item.update(values)
        return json.dumps(notebook).encode()

    return make


def odd_outputs(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    data = {"application/json": {"loss": float("nan"), "most": float("inf")}, "text/plain": ["NaN, ", "inf"]}
    cell(notebook, TASK.answer_id).outputs = [{"output_type": "display_data", "data": data, "metadata": {"a": None}}]
    return json.dumps(notebook).encode()


def odd_language(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    notebook.metadata["language_info"] = {"name": 5, "codemirror_mode": [[[]]], "pygments_lexer": "no such lexer"}
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": [1] * 1000}}
    notebook.metadata["title"] = "<script>1</script>"
    return json.dumps(notebook).encode()


def answer_below_its_check(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    answer = cell(notebook, TASK.answer_id)
    notebook.cells.remove(answer)
    notebook.cells.append(answer)
    return json.dumps(notebook).encode()


def checks_first(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    notebook.cells.sort(key=lambda item: not item.metadata.get("nbgrader", {}).get("grade"))
    return json.dumps(notebook).encode()


def without_a_format(room: Classroom) -> bytes:
    document = json.loads(right(room))
    del document["nbformat"], document["nbformat_minor"], document["metadata"]
    return json.dumps(document).encode()


def another_format(number: Any) -> Callable[[Classroom], bytes]:
    return lambda room: json.dumps(json.loads(right(room)) | {"nbformat": number, "nbformat_minor": None}).encode()


NO_CELLS: tuple[Any, ...] = (
    None,
    7,
    "cell",
    [],
    {},
    {"cell_type": None, "source": "x = 1"},
    {"cell_type": "code", "source": 5, "metadata": [], "outputs": {}},
    {"cell_type": "markdown", "source": {"a": 1}, "attachments": {"a": None}},
    {"cell_type": "markdown", "source": [1, None, "x"], "metadata": {"nbgrader": "x", "tags": 5}},
)
"""What may stand among the cells of a notebook and is none."""


def cells_that_are_none(room: Classroom) -> bytes:
    document = json.loads(right(room))
    document["cells"] = [*NO_CELLS, *document["cells"]]
    return json.dumps(document).encode()


def bytes_of_another_encoding(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    notebook.cells.append(nbformat.v4.new_markdown_cell("Gr\xf6\xdfe"))
    return json.dumps(notebook, ensure_ascii=False).encode("cp1252", errors="replace")


def an_answer_in_a_new_cell(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    cell(notebook, TASK.answer_id).metadata = {}
    return json.dumps(notebook).encode()


def without_any_metadata(room: Classroom) -> bytes:
    return with_values(metadata={}, id=None)(room)


def an_answer_merged_into_the_cell_above(room: Classroom) -> bytes:
    notebook = room.answered(RIGHT)
    place = notebook.cells.index(cell(notebook, TASK.answer_id))
    notebook.cells[place] = nbformat.v4.new_code_cell(f"helper = 1\n\n{RIGHT}")
    return json.dumps(notebook).encode()


READ: dict[str, tuple[Callable[[Classroom], bytes], str]] = {
    "byte-order mark": (lambda room: b"\xef\xbb\xbf" + right(room), ""),
    "UTF-16": (lambda room: encoded(room, "utf-16"), ""),
    "UTF-32": (lambda room: encoded(room, "utf-32"), ""),
    "ends of lines as on Windows": (windows_lines, ""),
    "ids of numbers": (with_values(id=5), ""),
    "the same id": (with_values(id="x" * 300), ""),
    "no id": (with_values(id=None), ""),
    "an unknown key": (with_values(whatever={"a": [1, 2]}), ""),
    "attachments of nonsense": (with_values(attachments=[1]), ""),
    "outputs that are none": (with_values(outputs="none"), ""),
    "NaN in an output": (odd_outputs, ""),
    "an odd language": (odd_language, ""),
    "an answer below its check": (answer_below_its_check, TASK.answer_id),
    "checks first": (checks_first, TASK.answer_id),
    "no format": (without_a_format, ""),
    "a format in letters": (another_format("4"), ""),
    "a format of the future": (another_format(5), ""),
    "a format of the past": (another_format(2), ""),
    "cells that are none": (cells_that_are_none, "count as empty (by number): 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    "another encoding": (bytes_of_another_encoding, "are not in UTF-8"),
    "an answer in a new cell": (an_answer_in_a_new_cell, TASK.answer_id),
    "cells without metadata": (without_any_metadata, TASK.answer_id),
    "an answer merged into another cell": (an_answer_merged_into_the_cell_above, TASK.answer_id),
}


def test_what_can_be_read_is_read(room: Classroom) -> None:
    for number, (make, _) in enumerate(READ.values()):
        room.place(make(room), f"student{number}")
    graded = room.grade()
    for number, (name, (_, expected)) in enumerate(READ.items()):
        item = graded[f"student{number}"]
        assert outcome_of(item)["status"] == "passed", (name, item.outcome)
        assert item.outcome is not None
        assert expected in str(item.outcome["problems"]), name
        assert bool(item.outcome["problems"]) == bool(expected), (name, item.outcome["problems"])


GIBIBYTE = 1 << 30

BOMBS: dict[str, Callable[[], bytes]] = {
    "millions of cells": lambda: b'{"nbformat":4,"metadata":{},"cells":[' + b'{"cell_type":""},' * 1_000_000 + b"{}]}",
    "cells under another spelling": lambda: (
        b'{"nbformat":4,"metadata":{},"cells":[' + b",".join([b'{"cell\\u005ftype":"raw"}'] * 800_000) + b"]}"
    ),
    "objects in outputs": lambda: (
        b'{"nbformat":4,"metadata":{},"cells":[{"cell_type":"code","source":"","outputs":['
        + b",".join([b'{"a":{}}'] * 800_000)
        + b"]}]}"
    ),
    "objects in metadata": lambda: (
        b'{"nbformat":4,"cells":[],"metadata":{"a":[' + b",".join([b"{}"] * 2_000_000) + b"]}}"
    ),
    "lines of a source": lambda: (
        b'{"nbformat":4,"metadata":{},"cells":[{"cell_type":"code","source":['
        + b",".join([b'"a"'] * 1_500_000)
        + b"]}]}"
    ),
    "an old format": lambda: b'{"nbformat":3,"metadata":{},"worksheets":[' + b",".join([b"[]"] * 2_000_000) + b"]}",
    "damaged": lambda: b"[" + b"[],{}," * 1_000_000,
    "tags": lambda: (
        b'{"nbformat":4,"metadata":{},"cells":[{"cell_type":"code","source":"","metadata":{"tags":['
        + b",".join([b'"a"'] * 1_500_000)
        + b"]}}]}"
    ),
}

MEASURED = """
import resource, sys
from autograder.course.reading import UnreadableNotebookError, parse_notebook
content = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    parse_notebook("x.ipynb", content)
except UnreadableNotebookError as error:
    assert len(str(error)) < 400
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_become_gigabytes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.ipynb"
    path.write_bytes(BOMBS[name]())
    done = subprocess.run([sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # Fifty bytes for each byte of the file were what Python's own reader took.
    assert int(done.stdout) < max(24 * path.stat().st_size, GIBIBYTE // 8), name


def test_too_many_cells_are_refused_and_the_most_are_read() -> None:
    def notebook(count: int) -> bytes:
        cells = [{"cell_type": "code", "source": "", "metadata": {}}] * count
        return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells}).encode()

    assert len(parse_notebook("x.ipynb", notebook(CELL_LIMIT)).cells) == CELL_LIMIT
    with pytest.raises(UnreadableNotebookError, match=f"more than the {CELL_LIMIT} cells"):
        parse_notebook("x.ipynb", notebook(CELL_LIMIT + 1))


def test_a_picture_in_a_written_answer_is_kept_and_nothing_else(room: Classroom) -> None:
    notebook = room.answered(RIGHT)
    text = nbformat.v4.new_markdown_cell("![](attachment:a.png)")
    text["attachments"] = {
        "a.png": {"image/png": "aGVsbG8="},
        "b.svg": {"image/svg+xml": "<svg/>"},
        "c": {"text/html": "x"},
    }
    notebook.cells.append(text)
    room.place(json.dumps(notebook).encode(), "me")
    found = received(room.course, "me", DAY, TASK.notebook)
    assert dict(found.cells[-1].attachments) == {"a.png": {"image/png": "aGVsbG8="}}


def test_a_folder_without_a_notebook_says_what_was_expected(room: Classroom) -> None:
    (folder_of(room, "empty") / "homework.docx").write_bytes(b"PK")
    graded = room.grade()
    assert FILE in graded["empty"].failure
    assert look_into(room.course, "empty", DAY).others == ("homework.docx",)


def test_the_released_notebooks_lose_nothing_that_grading_needs() -> None:
    root = Path(__file__).parents[2]
    for path in sorted((root / "curriculum").glob("*/ex_*.ipynb")):
        whole = nbformat.read(path, as_version=4)
        read = read_notebook(path)
        assert [item.source for item in read.cells] == [item.source for item in whole.cells]
        assert [item.cell_type for item in read.cells] == [item.cell_type for item in whole.cells]
        assert [item.id for item in read.cells] == [item.id for item in whole.cells]
        for item, original in zip(read.cells, whole.cells, strict=True):
            assert item.metadata.get("nbgrader") == original.metadata.get("nbgrader"), grade_id(original)
            assert item.metadata.get("tags", []) == original.metadata.get("tags", [])
            assert "attachments" not in original
        assert read.metadata["kernelspec"]["name"] == whole.metadata["kernelspec"]["name"]


def test_a_course_whose_submissions_are_a_folder_elsewhere(room: Classroom, tmp_path: Path) -> None:
    elsewhere = tmp_path / "collected"
    elsewhere.mkdir()
    room.course.records.mkdir(parents=True, exist_ok=True)
    room.course.submitted.symlink_to(elsewhere)
    room.place(right(room), "good")
    assert outcome_of(room.grade()["good"])["status"] == "passed"
    assert isinstance(room.course, Course)
