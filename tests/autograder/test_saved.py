"""A notebook that JupyterLab is saving is read whole, or the reader says what to do."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_server.services.contents.fileio import atomic_writing, path_to_intermediate

from autograder.course import saved
from autograder.course.reading import UnreadableNotebookError
from autograder.course.saved import LONGEST_SAVE, being_saved, saved_content

OLD, NEW = b'{"cells": ["old"]}', b'{"cells": ["new"]}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ex_01.ipynb"
    path.write_bytes(OLD)
    return path


class Saving:
    """The server's own way of saving, stopped in its midst; `go_on` ends it."""

    def __init__(self, path: Path) -> None:
        self.stack = ExitStack()
        self.file = self.stack.enter_context(atomic_writing(str(path), text=False))
        self.file.write(NEW[:5])
        self.file.flush()

    def go_on(self) -> None:
        self.file.write(NEW[5:])
        self.stack.close()


def clock(monkeypatch: pytest.MonkeyPatch, asleep: object) -> None:
    """Give the module a `sleep` of one's own."""
    module = SimpleNamespace(time=time.time, monotonic=time.monotonic, sleep=asleep)
    monkeypatch.setattr(saved, "time", module)


def test_a_save_that_is_on_its_way_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saving = Saving(path)
    assert being_saved(path)
    looks: list[float] = []

    def asleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            saving.go_on()

    clock(monkeypatch, asleep)
    assert saved_content(path) == NEW
    assert len(looks) == 3
    assert not being_saved(path)


def test_a_save_that_begins_and_ends_while_the_file_is_read_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, contents = saved.read_content, [b"half"]

    def read(of: Path) -> bytes:
        if contents:
            saving = Saving(of)
            saving.go_on()
            return contents.pop()
        return whole(of)

    monkeypatch.setattr(saved, "read_content", read)
    assert saved_content(path) == NEW


def test_the_file_behind_a_link_is_looked_at(path: Path) -> None:
    link = path.parent / "elsewhere" / "link.ipynb"
    link.parent.mkdir()
    link.symlink_to(path)
    saving = Saving(path)
    assert being_saved(link)
    saving.go_on()
    assert saved_content(link) == NEW


def test_a_copy_that_a_dead_server_left_keeps_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Path(path_to_intermediate(str(path)))
    left.write_bytes(OLD)
    assert being_saved(path)
    now = time.time() + LONGEST_SAVE + 1
    monkeypatch.setattr(saved, "time", SimpleNamespace(time=lambda: now, monotonic=time.monotonic))
    assert not being_saved(path)
    assert saved_content(path) == OLD


def test_a_file_that_never_comes_to_rest_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saving = Saving(path)
    passed = iter(range(1000))
    module = SimpleNamespace(time=lambda: os.stat(path).st_mtime, monotonic=lambda: next(passed), sleep=lambda _: None)
    monkeypatch.setattr(saved, "time", module)
    with pytest.raises(UnreadableNotebookError, match=r"ex_01\.ipynb: this file is being written all the time; wait"):
        saved_content(path)
    saving.go_on()


def test_a_missing_file_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock(monkeypatch, None)
    with pytest.raises(UnreadableNotebookError, match="there is no such notebook"):
        saved_content(tmp_path / "ex_01.ipynb")
