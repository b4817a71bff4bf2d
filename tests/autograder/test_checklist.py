"""The success checklist: a line is ticked when every task behind it was graded as passed."""

from __future__ import annotations

from pathlib import Path

import pytest
from classroom import TASK, Classroom
from rich.console import Console

from autograder.course.checklist import checklist_tables, read_checklist, state_of, unit_rows
from autograder.course.progress import append_event, latest, record_check, record_file
from autograder.course.tasks import all_tasks
from autograder.course.tracks import TRACKS, WEEK_1


def test_every_key_of_a_task_is_a_line(classroom: Classroom) -> None:
    items = read_checklist(classroom.course.root, WEEK_1)
    assert len({item.key for item in items}) == len(items) > 0
    assert any(TASK in item.tasks for item in items)


def test_a_key_that_is_no_line_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "Week1.md"
    page.write_text("- [ ] Something <!-- key: something -->\n")
    first = next(task for task in all_tasks() if task.checklist)
    with pytest.raises(LookupError, match=f"task {first.name} names .*{first.checklist[0]}.*Week1.md does not list"):
        read_checklist(tmp_path, WEEK_1)


def test_ticks_come_from_grades_and_not_from_checks(classroom: Classroom) -> None:
    workspace = classroom.course.workspace
    item = next(item for item in read_checklist(classroom.course.root, WEEK_1) if TASK in item.tasks)
    assert state_of(item, latest(workspace))[0] == "[ ]"
    for task in item.tasks:
        append_event(workspace, "check", task.name, "passed")
    mark, explanation = state_of(item, latest(workspace))
    assert mark == "[ ]"
    assert "submit" in explanation
    for task in item.tasks:
        append_event(workspace, "grade", task.name, "passed")
    assert state_of(item, latest(workspace))[0] == "[x]"
    append_event(workspace, "grade", item.tasks[0].name, "wrong")
    assert state_of(item, latest(workspace))[0] == "[ ]"


def test_a_line_that_was_cut_short_is_passed_over(classroom: Classroom) -> None:
    workspace = classroom.course.workspace
    append_event(workspace, "grade", TASK.name, "passed")
    with record_file(workspace).open("a") as file:
        file.write('{"at": "2026"\n[]\n5\n{"kind": "gra')
    assert latest(workspace) == {("grade", TASK.name): "passed"}


def test_checks_are_noted_in_the_workspace_only(
    classroom: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_check(TASK, "passed")
    assert latest(classroom.course.workspace) == {("check", TASK.name): "passed"}
    monkeypatch.chdir(tmp_path)
    record_check(TASK, "wrong")
    assert latest(classroom.course.workspace) == {("check", TASK.name): "passed"}


def test_the_table_shows_marks(classroom: Classroom) -> None:
    first, *others = read_checklist(classroom.course.root, WEEK_1)
    for task in first.tasks:
        append_event(classroom.course.workspace, "grade", task.name, "passed")
    console = Console(width=200, record=True)
    tables = checklist_tables(classroom.course)
    titles = [f"{track.name}: {what}" for track in TRACKS for what in ("success checklist", "your tasks")]
    assert [table.title for table in tables] == titles
    console.print(tables[0])
    lines = console.export_text().splitlines()
    (ticked,) = [line for line in lines if "[x]" in line]
    assert first.text in ticked
    assert sum("[ ]" in line for line in lines) == len(others)


def test_a_track_that_was_not_handed_out_is_not_shown(classroom: Classroom) -> None:
    (classroom.course.root / TRACKS[1].page).unlink()
    assert {table.title.split(":")[0] for table in checklist_tables(classroom.course)} == {TRACKS[0].name}


def test_tasks_are_counted_by_unit() -> None:
    counts = {unit.name: sum(task.unit == unit.name for task in all_tasks()) for unit in WEEK_1.units}
    one = next(task for task in all_tasks() if task.unit == WEEK_1.units[1].name)
    statuses = {("check", TASK.name): "passed", ("grade", TASK.name): "wrong", ("grade", one.name): "passed"}
    rows = {row[0]: row[1:] for row in unit_rows(WEEK_1, statuses)}
    assert list(rows) == [unit.heading for unit in WEEK_1.units]
    for unit in WEEK_1.units:
        expected = tuple(f"{int(unit.name == which.unit)} of {counts[unit.name]}" for which in (TASK, one))
        assert rows[unit.heading] == expected
