"""The sandbox: what is not a submission's own is out of its reach."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import torch
from classroom import TASK, Classroom, run, shown_below

from autograder.grading.grading import Grader

ABSENT = ["fxopt_core.capture", "autograder.grading.judging", f"{TASK.module}.judge", "autograder.course.course"]
"""The first is withheld by the task, which a learner is told; the others are nobody's business."""

PROBES = """
import json, os, socket, sys
found = {}
for path in %(write)r:
    try:
        # Opened and never written: a sandbox that fails here must not change this machine.
        os.close(os.open(path, os.O_WRONLY | (0 if os.path.exists(path) else os.O_CREAT)))
        found[path] = "opened for writing"
    except OSError as error:
        found[path] = type(error).__name__
for path in %(read)r:
    found[path] = os.path.exists(path)
for address in %(addresses)r:
    try:
        socket.create_connection(tuple(address), 1).close()
        found[address[0]] = "connected"
    except OSError as error:
        found[address[0]] = type(error).__name__
found["capabilities"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")]
found["environment"] = " ".join(f"{name}={value}" for name, value in os.environ.items())
for name in %(modules)r:
    try:
        __import__(name)
        found[name] = "imported"
    except ImportError as error:
        found[name] = type(error).__name__
for name in os.listdir("/tmp"):
    for entry in os.listdir("/tmp/" + name) if name.startswith("fxopt-") else []:
        with socket.socket(socket.AF_UNIX) as second:
            try:
                second.connect(f"/tmp/{name}/{entry}")
                found["second connection"] = "connected"
            except OSError as error:
                found["second connection"] = type(error).__name__
print("FOUND", json.dumps(found))
"""


def test_the_sandbox_reaches_neither_files_nor_network_nor_rights(
    sandboxed: Grader, classroom: Classroom, tmp_path: Path
) -> None:
    course = classroom.course
    classroom.hand_in("# a secret of somebody else", "other")
    course.seed()
    (course.records / "gradebook.db").write_text("")
    package = Path(__file__).parents[2]
    read = [
        *(str(path) for path in course.root.rglob("*") if path.is_file()),
        str(course.records / "seed"),
        str(package / "solutions"),
        str(package / "autograder" / "exercises"),
        str(package / "autograder" / "grading" / "judging.py"),
        str(Path.home() / ".bashrc"),
        str(tmp_path),
    ]
    write = [
        "/etc/x",
        "/usr/x",
        "/dev/x",
        "/view/autograder/learner_side/worker.py",
        "/view/x",
        f"{torch.__path__[0]}/x",
    ]
    write += ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/mem", "/proc/self/mem"]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        addresses = [["127.0.0.1", listener.getsockname()[1]], ["192.0.2.1", 80]]
        source = PROBES % {"write": write, "read": read, "addresses": addresses, "modules": ABSENT}
        _, printed = run(sandboxed, classroom, source, seconds=30.0)
    found = json.loads(printed.split("FOUND", 1)[1])
    assert {path: found[path] for path in read} == dict.fromkeys(read, False)
    assert [path for path in write if found[path] == "opened for writing"] == []
    assert all(found[address] != "connected" for address, _ in addresses)
    assert len(found["capabilities"]) == 5
    assert all(int(value, 16) == 0 for value in found["capabilities"])
    assert "a seed for tests" not in found["environment"]
    assert str(course.root) not in found["environment"]
    assert found["fxopt_core.capture"] == "WithheldImportError"
    assert {name: found[name] for name in ABSENT[1:]} == dict.fromkeys(ABSENT[1:], "ModuleNotFoundError")
    assert found.get("second connection", "nothing to connect to") != "connected"


LEAVES_A_PROCESS = (
    "import os, time\nopen('/tmp/left', 'w').write('x')\n"
    "if os.fork() == 0:\n    os.setsid()\n    os.closerange(0, 99)\n    time.sleep(60)"
)
LOOKS_AROUND = (
    "import os\nprint([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])\n"
    "print(os.listdir('/tmp') + os.listdir('/dev/shm'))"
)


def test_a_task_sees_no_process_of_an_earlier_task(sandboxed: Grader, room: Classroom) -> None:
    with sandboxed.submission():
        sandboxed.first_round(replace(TASK, seconds=9.0), room.cells(LEAVES_A_PROCESS), set())
        _, outputs = sandboxed.first_round(replace(TASK, seconds=9.0), room.cells(LOOKS_AROUND), set())
    found = eval(outputs[TASK.answer_id][0]["text"].splitlines()[0])
    # The submission's process, which runs no code of a learner, and this very task's.
    assert len([line for line in found if "autograder.learner_side.warm" in line]) == 2, found
    assert len(found) == 2


def test_a_submission_sees_nothing_of_an_earlier_submission(sandboxed: Grader, room: Classroom) -> None:
    run(sandboxed, room, LEAVES_A_PROCESS)
    _, printed = run(sandboxed, room, LOOKS_AROUND, seconds=9.0)
    processes, files = map(eval, printed.splitlines())
    assert len(processes) == 2
    assert files == shown_below("/tmp")


def test_scratch_space_is_limited(sandboxed: Grader, room: Classroom) -> None:
    fill = (
        "for folder in ('/tmp', '/dev/shm'):\n    size = 0\n    try:\n"
        "        with open(folder + '/big', 'wb') as file:\n"
        "            while size < 200: size += file.write(b'x' * (1 << 20)) >> 20\n"
        "    except OSError as error: print(folder, size, 'MiB', error.errno)"
    )
    _, printed = run(sandboxed, room, fill, seconds=20.0)
    assert [int(size) <= 64 for size in re.findall(r"(\d+) MiB", printed)] == [True, True], printed
