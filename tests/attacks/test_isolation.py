"""Each wall around a learner's code: what it forbids fails inside, and succeeds outside where that is safe to show."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from classroom import need_bubblewrap, shown_below

from autograder.course.tasks import find_task
from autograder.exchange.channel import ChannelClosedError, ChannelTimeoutError
from autograder.grading.sandbox import Limits, Worker
from autograder.grading.system_calls import learner_filter

TASK = find_task("record_graphs")
LIMITS = Limits(memory_bytes=1200 << 20, processes=24, open_files=256, scratch_bytes=32 << 20)


@pytest.fixture(scope="module")
def warm() -> Iterator[Worker]:
    need_bubblewrap()
    with Worker([TASK], LIMITS, sandboxed=True) as worker:
        yield worker


@pytest.fixture
def worker(warm: Worker) -> Iterator[Worker]:
    warm.begin()
    yield warm
    warm.end()


def printed(worker: Worker, source: str, seconds: float = 60.0) -> str:
    """What a cell prints in the sandbox."""
    channel = worker.run([{"id": "cell", "source": source}], TASK)
    try:
        assert channel.receive(seconds).header == {"cell": "cell"}
        outputs = channel.receive(seconds).header["outputs"]
    finally:
        channel.close()
        worker.end_run()
    return "".join(output.get("text", str(output.get("evalue"))) for output in outputs)


CALLS = """
import ctypes, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"add_key": 248, "request_key": 249, "keyctl": 250, "process_vm_readv": 310, "pidfd_getfd": 438,
               "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "perf_event_open": 298},
    "aarch64": {"add_key": 217, "request_key": 218, "keyctl": 219, "process_vm_readv": 270, "pidfd_getfd": 438,
                "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425, "perf_event_open": 241},
}[platform.machine()]

def tried(result):
    print("through" if result >= 0 else os.strerror(ctypes.get_errno()))

def numbered(name, *arguments):
    return libc.syscall(NUMBERS[name], *arguments)

def child():
    pid = os.fork()
    if pid == 0:
        import time
        time.sleep(20)
        os._exit(0)
    return pid
"""


def test_no_memory_is_shared_from_one_submission_to_the_next(worker: Worker) -> None:
    """A lock in it, once taken by a process that was killed, would stop everybody after it."""
    source = (
        "import torch\n"
        "from torch import fx\n"
        "fx.Interpreter(fx.symbolic_trace(torch.nn.ReLU())).run(torch.ones(2))\n"
        "lines = [line.split() for line in open('/proc/self/maps')]\n"
        "print([line for line in lines if 's' in line[1] and 'w' in line[1]])"
    )
    assert printed(worker, source).strip() == "[]"


REFUSED = {
    "tracing another process": "pid = child()\ntried(libc.ptrace(16, pid, 0, 0))\nos.kill(pid, 9)",
    "reading another process's memory": (
        "pid = child()\nclass V(ctypes.Structure): _fields_ = [('a', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "here, there = ctypes.create_string_buffer(4), ctypes.create_string_buffer(b'abc')\n"
        "one, two = V(ctypes.addressof(here), 4), V(ctypes.addressof(there), 4)\n"
        "n = ctypes.c_ulong\n"
        "tried(numbered('process_vm_readv', pid, ctypes.byref(one), n(1), ctypes.byref(two), n(1), n(0)))\n"
        "os.kill(pid, 9)"
    ),
    "taking another process's open file": (
        "pid = child()\ntried(numbered('pidfd_getfd', os.pidfd_open(pid), 0, 0))\nos.kill(pid, 9)"
    ),
    "a new namespace of users": "tried(libc.unshare(0x10000000))",
    "a new namespace by clone": (
        "number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n"
        "result = libc.syscall(number, 0x10000000 | 17, 0, 0, 0, 0)\n"
        "if result == 0: os._exit(0)\n"
        "tried(result)"
    ),
    "shared memory of System V": "tried(libc.shmget(0, 4096, 0o1600))",
    "semaphores of System V": "tried(libc.semget(0, 1, 0o1600))",
    "a message queue of System V": "tried(libc.msgget(0, 0o1600))",
    "a key": "tried(numbered('add_key', b'user', b'fxopt-test', b'x', 1, -1))",
    "a session keyring": "tried(numbered('keyctl', 1, 0))",
    "a socket to the kernel": (
        "try:\n    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()\n    print('through')\n"
        "except OSError as error: print(os.strerror(error.errno))"
    ),
    "limits of the process that starts tasks": (
        "import resource\ntry:\n    resource.prlimit(os.getppid(), resource.RLIMIT_CORE)\n    print('through')\n"
        "except OSError as error: print(os.strerror(error.errno))"
    ),
}
"""What fails with "not permitted" inside and succeeds in a plain process."""

ALSO_REFUSED = {
    "mounting": "tried(libc.mount(b'x', b'/tmp', b'tmpfs', 0, None))",
    "another root folder": "tried(libc.chroot(b'/tmp'))",
    "programs in the kernel": "tried(numbered('bpf', 0, 0, 0))",
    "events of the processor": "tried(numbered('perf_event_open', 0, 0, -1, -1, 0))",
    "page faults by hand": "tried(numbered('userfaultfd', 0))",
    "rings of requests to the kernel": "tried(numbered('io_uring_setup', 1, 0))",
}
"""Likewise; whether a plain process may depends on the machine, or is not to be tried."""


def outside(source: str) -> str:
    """What the same code prints in a plain process, in a session keyring and IPC namespace that end with it."""
    # Whatever it makes is made in namespaces of its own, so that nothing is left on this machine.
    apart = ["unshare", "--user", "--map-root-user", "--ipc", "--net"] if _may_unshare() else []
    done = subprocess.run(
        [*apart, sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def _may_unshare() -> bool:
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "--ipc", "--net", "true"], check=False)
    return tried.returncode == 0


@pytest.mark.parametrize("name", [*REFUSED, *ALSO_REFUSED])
def test_system_calls_that_reach_out_are_refused(worker: Worker, name: str) -> None:
    if not learner_filter().program:
        (pytest.fail if "CI" in os.environ else pytest.skip)(learner_filter().absent)
    source = CALLS + (REFUSED | ALSO_REFUSED)[name]
    assert printed(worker, source).split("\n")[0] == "Operation not permitted"


@pytest.mark.skipif(platform.system() != "Linux", reason="these are Linux's system calls")
@pytest.mark.parametrize("name", REFUSED)
def test_outside_the_same_calls_succeed(name: str) -> None:
    assert "through" in outside(CALLS + REFUSED[name])


def test_the_filter_knows_every_call_that_it_is_to_refuse() -> None:
    assert learner_filter().absent == ""


def test_python_still_starts_threads_and_processes(worker: Worker) -> None:
    source = (
        "import subprocess, threading\nsubprocess.run(['true'], check=True)\n"
        "thread = threading.Thread(target=print, args=('from a thread',))\nthread.start()\nthread.join()\n"
        "import multiprocessing\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))"
    )
    assert printed(worker, source) == "from a thread\n[1, 2]\n"


WAYS_BACK = """
import os
found = {}
for name in ("mem", "environ", "maps", "fd/0", "fd/3"):
    try:
        found[name] = len(os.readlink(f"/proc/1/{name}") if "fd" in name else open(f"/proc/1/{name}", "rb").read(1))
    except OSError as error:
        found[name] = type(error).__name__
found["open files"] = sorted(
    (number, os.readlink(f"/proc/self/fd/{number}").partition(":")[0]) for number in os.listdir("/proc/self/fd")
    if os.path.exists(f"/proc/self/fd/{number}") or os.path.islink(f"/proc/self/fd/{number}")
)
found["users"] = open("/proc/self/uid_map").read().split()
found["rights"] = {
    line.split()[0]: line.split()[1] for line in open("/proc/self/status")
    if line.startswith(("Cap", "NoNewPrivs", "Seccomp:"))
}
import json
print(json.dumps(found))
"""


def test_there_is_no_way_back_to_the_processes_before(worker: Worker) -> None:
    found = json.loads(printed(worker, WAYS_BACK))
    assert {found[name] for name in ("mem", "environ", "maps", "fd/0", "fd/3")} == {"PermissionError"}
    # Nothing, twice nowhere, and the one socket for its own answers; listing the folder opens another.
    kinds = sorted(kind for _, kind in found["open files"])
    assert kinds.count("socket") == 1, found["open files"]
    assert found["rights"].pop("NoNewPrivs:") == "1"
    assert found["rights"].pop("Seccomp:") == "2"
    assert {int(value, 16) for value in found["rights"].values()} == {0}
    assert found["users"][2] == "1"


def test_each_submission_has_namespaces_of_its_own(warm: Worker) -> None:
    kinds = ["user", "pid", "mnt", "ipc", "net", "uts"]
    source = f"import os\nprint([os.readlink('/proc/self/ns/' + kind) for kind in {kinds}])"
    seen = []
    for _ in range(2):
        warm.begin()
        seen.append(eval(printed(warm, source)))
    warm.end()
    here = [os.readlink(f"/proc/self/ns/{kind}") for kind in kinds]
    for kind, first, second, own in zip(kinds, *seen, here, strict=True):
        # The numbers of namespaces that are gone are given again, so that two in a row may be equal.
        assert own not in (first, second), kind


def test_scratch_space_has_a_size_and_is_empty_for_the_next_submission(warm: Worker) -> None:
    fill = (
        "import os\nfor folder in ('/tmp', '/dev/shm'):\n    size = 0\n    try:\n"
        "        with open(folder + '/left', 'wb') as file:\n"
        "            while size < 99: size += file.write(b'x' * (1 << 20)) >> 20\n"
        "    except OSError: pass\n    print(size <= 32)"
    )
    look = "import os\nprint(os.listdir('/tmp'), os.listdir('/dev/shm'))"
    warm.begin()
    assert printed(warm, fill) == "True\nTrue\n"
    assert "left" in printed(warm, look)
    warm.begin()
    assert printed(warm, look) == f"{shown_below('/tmp')} []\n"
    warm.end()


def test_open_files_have_a_limit(worker: Worker) -> None:
    source = (
        "import os\nheld = []\ntry:\n    while len(held) < 2000: held.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError as error: print(error.errno, len(held) < 256)"
    )
    assert printed(worker, source) == "24 True\n"


HOLDS = {
    "stops everything that it sees": (
        "import os, signal\nfor pid in os.listdir('/proc'):\n    if pid.isdigit() and int(pid) != os.getpid():\n"
        "        try: os.kill(int(pid), signal.SIGSTOP)\n        except OSError: pass\n"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    ),
    "stops its whole session": "import os, signal\nos.killpg(0, signal.SIGSTOP)",
    "asks for everything to be killed": "import os, signal\nos.kill(-1, signal.SIGKILL)\nimport time\ntime.sleep(30)",
    "takes all processes that it may": (
        "import os, time\nfor _ in range(15):\n    if os.fork() == 0:\n        os.setsid()\n        time.sleep(60)\n"
        "time.sleep(60)"
    ),
    "writes into every open file": (
        "import os, time\nfor number in range(3, 256):\n    try: os.write(number, b'\\xff' * 1000)\n"
        "    except OSError: pass\ntime.sleep(60)"
    ),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_holds_a_task_up_holds_nothing_else_up(worker: Worker, name: str) -> None:
    channel = worker.run([{"id": "cell", "source": HOLDS[name]}], TASK)
    try:
        for _ in range(3):
            channel.receive(1.0)
    except (ChannelTimeoutError, ChannelClosedError, ValueError):
        pass
    channel.close()
    started = time.monotonic()
    worker.end_run()
    # Seconds on a machine that does much else; at most as long as a process may take to end.
    assert time.monotonic() - started < 10
    assert worker.alive
    assert printed(worker, "print('the next task')") == "the next task\n"


def test_where_namespaces_are_refused_each_submission_gets_a_sandbox_of_its_own() -> None:
    need_bubblewrap()
    with Worker([TASK], LIMITS, sandboxed=True) as cold:
        # As if the warm process had answered that the kernel refuses.
        cold._stop()
        cold._fresh_namespaces = False
        cold._start()
        look = "import os\nprint(os.listdir('/tmp'), os.readlink('/proc/self/ns/pid'))\nopen('/tmp/left', 'w').close()"
        seen = []
        for _ in range(2):
            cold.begin()
            seen.append(printed(cold, look))
            rights = printed(cold, "print([line.split()[1] for line in open('/proc/self/status') if 'Cap' in line])")
            assert {int(value, 16) for value in eval(rights)} == {0}
    assert len(seen) == 2
    assert not any("left" in text for text in seen), seen
