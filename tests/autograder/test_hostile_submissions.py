"""Submissions that loop, crash, fork or fill memory: one clear line each, and the next one is graded."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from classroom import BLANK, RIGHT, SMALL, TASK, Classroom, need_bubblewrap, run, when_called

from autograder.exchange.verdict import Status, TaskOutcome
from autograder.grading.grading import Grader


@pytest.fixture(params=["sandboxed", "plain"])
def grader(request: pytest.FixtureRequest) -> Grader:
    graded: Grader = request.getfixturevalue(request.param)
    return graded


def test_a_right_answer_passes_so_that_the_rest_of_this_file_means_something(grader: Grader, room: Classroom) -> None:
    assert run(grader, room, RIGHT, seconds=60.0)[0].status == "passed"


ENDINGS = {
    "loops while defined": ("while True: pass", "time limit"),
    "loops when called": (when_called("while True: pass"), "time limit"),
    "prints for ever": ("while True: print('x' * 1000)", "time limit"),
    "sleeps through every signal": (
        "import signal, time\nfor n in range(1, 32):\n    if n not in (9, 19): signal.signal(n, signal.SIG_IGN)\n"
        "time.sleep(99)",
        "time limit",
    ),
    "stops itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "time limit"),
    "os._exit": ("import os\nos._exit(0)", "crashed"),
    "os._exit when called": (when_called("import os\nos._exit(0)"), "crashed"),
    "sys.exit": ("import sys\nsys.exit()", "error"),
    "SystemExit when called": (when_called("raise SystemExit"), "wrong"),
    "KeyboardInterrupt when called": (when_called("raise KeyboardInterrupt"), "wrong"),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", "crashed"),
    "abort": ("import os\nos.abort()", "crashed"),
    "unlimited recursion": (when_called("self(graph_module, example_inputs)"), "wrong"),
    "closes every file": (f"import os\nos.closerange(0, 4096)\n{RIGHT}", "crashed"),
    "raises an exception that cannot be printed": (
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "error",
    ),
    "replaces built-in functions": (
        f"{RIGHT}\nimport builtins\nbuiltins.len = lambda x: 0\nbuiltins.isinstance = lambda *a: True\n"
        "builtins.list = builtins.dict = builtins.getattr = None",
        None,
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_whatever_ends_or_holds_the_process_is_one_line_and_no_points(
    grader: Grader, room: Classroom, name: str
) -> None:
    source, expected = ENDINGS[name]
    outcome, _ = run(grader, room, source)
    assert outcome.status != "passed"
    assert expected is None or outcome.status == expected, outcome.messages
    assert len(outcome.messages) == 1


BROKEN = "# My helper.\nhelper = torch.no_such_function"


@pytest.mark.parametrize(
    "answer",
    ["class GraphRecorder:\n    made = helper()", when_called("helper()"), "helper()\n"],
    ids=["in the cell", "when it is called", "nothing is defined"],
)
def test_a_cell_above_that_failed_is_named_instead_of_what_follows(plain: Grader, room: Classroom, answer: str) -> None:
    cells = [{"id": "mine", "source": BROKEN}, *room.cells(answer)]
    # Its own import of torch stands in the notebook's first cell.
    cells.insert(0, cells.pop(1))
    with plain.submission():
        outcome, _ = plain.first_round(replace(TASK, seconds=30.0), cells, set())
    assert outcome.status == "error"
    [message] = outcome.messages
    assert "A cell above your answer failed first" in message
    assert "AttributeError: module 'torch' has no attribute 'no_such_function'" in message
    assert "`# My helper.`" in message


def test_a_cell_above_that_failed_takes_no_blame_for_another_mistake(plain: Grader, room: Classroom) -> None:
    cells = [{"id": "mine", "source": BROKEN}, *room.cells(when_called("[][1]"))]
    with plain.submission():
        outcome, _ = plain.first_round(replace(TASK, seconds=30.0), cells, set())
    assert "IndexError" in outcome.messages[0]
    assert "above your answer" not in outcome.messages[0]


def test_nothing_inside_ends_or_stops_what_starts_the_tasks(sandboxed: Grader, room: Classroom) -> None:
    signals = "import os, signal\nfor n in range(1, 65):\n    try: os.kill(os.getppid(), n)\n    except OSError: pass\n"
    with sandboxed.submission():
        outcome, _ = sandboxed.first_round(replace(TASK, seconds=30.0), room.cells(signals + RIGHT), set())
        assert outcome.status == "passed"
        again, _ = sandboxed.first_round(replace(TASK, seconds=30.0), room.cells(RIGHT), set())
    assert again.status == "passed"


HOGS = {
    "private": "hog = []\nwhile True: hog.append(bytearray(b'x') * (1 << 24))",
    "shared": (
        "import mmap\nhog = []\nwhile True:\n    hog.append(mmap.mmap(-1, 1 << 24))\n"
        "    hog[-1].write(b'x' * (1 << 24))"
    ),
    "files in memory": (
        "import os, time\nhog = []\nfor _ in range(160):\n    hog.append(os.memfd_create('x'))\n"
        "    os.write(hog[-1], b'x' * (1 << 24))\ntime.sleep(30)"
    ),
    "behind short-lived processes": (
        "import os, threading, time\nhog = []\n"
        "def churn():\n    for _ in range(300):\n"
        "        if (pid := os.fork()) == 0: os._exit(0)\n        os.waitpid(pid, 0)\n"
        "threading.Thread(target=churn).start()\nwhile True: hog.append(bytearray(b'x') * (1 << 24))"
    ),
}


@pytest.mark.parametrize("name", HOGS)
def test_memory_of_every_kind_is_limited(sandboxed: Grader, room: Classroom, name: str) -> None:
    outcome, _ = run(sandboxed, room, HOGS[name], seconds=20.0)
    assert outcome.status == "memory limit", outcome.messages
    assert "1 GiB" in outcome.messages[0]


def test_memory_of_a_plain_process_is_limited(plain: Grader, room: Classroom) -> None:
    assert run(plain, room, HOGS["private"], seconds=20.0)[0].status == "memory limit"


# Harmless by itself should the limit fail: sixty processes that sleep for a few seconds.
FORKS = "import os, time\nfor _ in range(60):\n    if os.fork() == 0: time.sleep(8) or os._exit(0)\ntime.sleep(8)"


def test_processes_are_counted(grader: Grader, room: Classroom) -> None:
    outcome, _ = run(grader, room, FORKS, seconds=9.0)
    assert outcome.status == "process limit"
    assert "24 processes" in outcome.messages[0]


def test_a_process_left_behind_ends_with_its_task(plain: Grader, room: Classroom, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    outcome, _ = run(
        plain,
        room,
        f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        open({str(note)!r}, 'w').write(str(os.getpid()))\n        os.closerange(0, 99)\n"
        "        time.sleep(60)\n"
        f"    os._exit(0)\nwhile not os.path.exists({str(note)!r}): time.sleep(0.01)\ntime.sleep(0.1)\n{RIGHT}",
        seconds=30.0,
    )
    assert outcome.status == "passed"
    assert not psutil.pid_exists(int(note.read_text()))


def test_output_without_end_is_cut_and_the_answer_still_counts(sandboxed: Grader, room: Classroom) -> None:
    loud = (
        "import os, sys\nfrom IPython.display import HTML\nfor _ in range(300): print('y' * 100_000)\n"
        "for _ in range(100): display(HTML('z' * 50_000))\nos.write(1, b'x' * 10_000_000)\n"
        f"print(chr(0xd800), file=sys.stderr)\n{RIGHT}"
    )
    outcome, outputs = sandboxed.grade(TASK, room.cells(loud))
    assert outcome.status == "passed"
    text = json.dumps(outputs, ensure_ascii=False)
    assert "output cut" in text
    assert len(text.encode()) < 2_500_000


def test_a_cell_that_is_not_the_answer_is_left_out_when_it_does_not_end(sandboxed: Grader, room: Classroom) -> None:
    for nuisance, expected in (("while True: pass", "passed"), ("import os\nos._exit(0)", "passed")):
        cells = room.cells(RIGHT)
        cells.insert(0, {"id": "nuisance", "source": nuisance})
        stuck: set[str] = set()
        started = time.monotonic()
        outcome, _ = sandboxed.grade(replace(TASK, seconds=6.0), cells, stuck)
        assert outcome.status == expected, outcome.messages
        assert stuck == {"nuisance"}
        assert time.monotonic() - started < 60


def test_what_never_ran_is_not_said_to_have_been_stopped(sandboxed: Grader, room: Classroom) -> None:
    endless = room.cells(RIGHT)
    endless[0:0] = [{"id": f"nuisance{number}", "source": "while True: pass"} for number in range(4)]
    outcome, _ = sandboxed.grade(replace(TASK, seconds=2.0), endless)
    assert outcome.status == "time limit"
    assert outcome.messages == ["Not run: the cell nuisance3 before this task did not finish within 2 seconds."]


def test_all_tasks_of_a_submission_share_one_budget_of_time(room: Classroom) -> None:
    need_bubblewrap()
    slow, task = room.cells("import time\ntime.sleep(60)"), replace(TASK, seconds=30.0)
    started = time.monotonic()
    with Grader([TASK], "x", sandboxed=True, limits=replace(SMALL, submission_seconds=4.0)) as grader:
        with grader.submission():
            started = time.monotonic()
            first, _ = grader.first_round(task, slow, set())
            second, _ = grader.first_round(task, room.cells(RIGHT), set())
            third = grader.second_round(task, room.cells(RIGHT), set(), replace_status(first, "passed"))
        assert time.monotonic() - started < 30
        again, _ = grader.grade(TASK, room.cells(BLANK))
    assert "has 4 seconds altogether, and they were over while this task ran" in first.messages[0]
    assert second.messages[0].startswith("Not run: the code of one notebook has 4 seconds altogether")
    assert third.status == "time limit"
    assert third.messages[0].startswith("Right on the visible cases, but the hidden ones were not run")
    assert again.status == "not written"


def replace_status(outcome: TaskOutcome, status: Status) -> TaskOutcome:
    return replace(outcome, status=status)
