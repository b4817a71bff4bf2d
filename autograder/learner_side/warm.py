"""The warm process: imports torch and the view once, and forks for every submission and again for every task.

`python -m autograder.learner_side.warm NUMBER own|shared [PACKAGE…]` takes the open file NUMBER as its channel to the
grading process. PACKAGEs are not there, and what needs them is not imported ahead. Three generations of processes
follow one another, each with less in its hands than the one before:

1. The warm process itself never runs a learner's code. For each `{"submission": ...}` it forks the second.
2. The submission's process enters fresh namespaces, gives up every right, and runs no learner's code either. It is the
   first process of its namespace: nothing inside can end or stop it, and with it everything inside ends. For each
   `{"run": ...}` it forks the third.
3. The task's process (see `worker`) runs the learner's cells. Of all channels it has its own answers' only.

Where there are no namespaces of one's own (`shared`), the same three follow one another with limits only.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from autograder.exchange.channel import Channel, ChannelClosedError, inherited_channel
from autograder.exchange.forking import share_no_lock
from autograder.exchange.sparing import nothing_collected, spare
from autograder.learner_side.confinement import (
    adopt_orphans,
    enter_new_namespaces,
    fork_into_new_process_ids,
    give_up_rights,
    limit_resources,
    refusal_of_namespaces,
    show_own_memory,
)
from autograder.learner_side.learner_shell import LearnerShell
from autograder.learner_side.mode import GRADING_VARIABLE
from autograder.learner_side.rehearsal import import_ahead, rehearse, tasks_in_view
from autograder.learner_side.worker import answer_cases

ENDING_SECONDS = 1.0
"""How long a process that closed its channel may take to end."""

POLL_SECONDS = 0.01
"""How long to sleep between two looks at a child, where the system cannot wait for one beside a channel."""


def serve(control: Channel, own_namespaces: bool, shell: LearnerShell) -> None:
    """Start a process for each submission, until the grading process closes the channel.

    Args:
        control: channel to the grading process.
        own_namespaces: whether to give each submission namespaces of its own.
        shell: in which nothing ran; every task gets a copy.
    """
    if not own_namespaces:
        adopt_orphans()
    while True:
        try:
            request = control.receive().header
            if "submission" not in request:
                continue  # an order to end a submission that is not running any more
            channel = control.take_over()
        except ChannelClosedError:
            return
        child = fork_into_new_process_ids() if own_namespaces else os.fork()
        if child == 0:
            control.close()
            _run_apart(serve_submission, channel, request["submission"], own_namespaces, shell)
        channel.close()
        control.send({"started": child})
        _wait_or_kill(child, control)
        if not own_namespaces:
            _kill_leftovers(own_namespaces)
        control.send({"ended": child})


def serve_submission(channel: Channel, wanted: dict[str, Any], own_namespaces: bool, shell: LearnerShell) -> None:
    """Shut this process in, then run one task after the other for one submission.

    Args:
        channel: to the grading process, for this submission.
        wanted: `limits` (of each process), `scratch_bytes`, `kept` (folders that stay visible in the scratch space),
            `scratch` (the scratch folder, where processes share one) and `filter` (of system calls, hexadecimal).
        own_namespaces: whether to enter namespaces.
        shell: in which nothing ran.
    """
    os.setsid()
    # From inside, the first process of a namespace is spared every signal for which it has no handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if own_namespaces:
        enter_new_namespaces(wanted["scratch_bytes"], wanted["kept"])
        limit_resources(wanted["limits"])
        give_up_rights(bytes.fromhex(wanted["filter"]))
    else:
        adopt_orphans()
        limit_resources(wanted["limits"])
        if wanted["filter"]:
            give_up_rights(bytes.fromhex(wanted["filter"]))
        os.environ["TMPDIR"] = os.environ["HOME"] = wanted["scratch"]
        os.chdir(wanted["scratch"])
    # What is written past Python's streams is of no use to anybody, and the log lies outside every limit.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    channel.send({"ready": True})
    while True:
        try:
            request = channel.receive().header
            if "run" not in request:
                continue  # an order to end a task that had already ended by itself
            answers = channel.take_over()
        except ChannelClosedError:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            _run_apart(run_task, answers, request["run"], own_namespaces, shell)
        answers.close()
        status = _wait_or_kill(child, channel)
        _kill_leftovers(own_namespaces)
        # Killed, and not by us: by its own code, or by somebody outside.
        killed = status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        channel.send({"exited": child, "killed": killed})


def run_task(answers: Channel, request: dict[str, Any], own_namespaces: bool, shell: LearnerShell) -> None:
    """Run the cells of one task and answer its cases."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if own_namespaces:
        show_own_memory()
    answer_cases(answers, request, shell)


def _run_apart(function: Callable[..., None], *arguments: Any) -> None:
    """Run a function in a forked child, and end there, whatever comes of it: exit handlers and threads are not ours."""
    code = 1
    try:
        function(*arguments)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # into the worker's log
    finally:
        os._exit(code)


def _wait_or_kill(child: int, channel: Channel) -> int | None:
    """Wait for a child; its wait status, or `None` when the other side spoke and its session was killed.

    Ends this process when the other side is gone.
    """
    watched, ended = None, False
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            watched = os.pidfd_open(child)
    try:
        while True:
            if watched is None:
                found, status = os.waitpid(child, os.WNOHANG)
                if found:
                    return None if ended else status
                told = channel.ready(POLL_SECONDS)
            else:
                poll = select.poll()
                poll.register(watched, select.POLLIN)
                poll.register(channel.fileno(), select.POLLIN)
                told = channel.fileno() in dict(poll.poll())
                if not told:
                    status = os.waitpid(child, 0)[1]
                    return None if ended else status
            if told:
                try:
                    order = channel.receive().header
                except ChannelClosedError:
                    _end_session(child)
                    os._exit(1)
                if order.get("ended"):
                    # Its channel closed: it is about to end by itself, and how it does is worth knowing.
                    limit = time.monotonic() + ENDING_SECONDS
                    while time.monotonic() < limit:
                        found, status = os.waitpid(child, os.WNOHANG)
                        if found:
                            return None if ended else status
                        time.sleep(POLL_SECONDS)
                ended = True
                _end_session(child)
    finally:
        if watched is not None:
            os.close(watched)


def _end_session(leader: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(leader, signal.SIGKILL)


def _kill_leftovers(own_namespaces: bool) -> None:
    if own_namespaces:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        return
    import psutil

    # A process that is killed may have started another one just before.
    while family := psutil.Process().children(recursive=True):
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def warm_up(without: Sequence[str]) -> LearnerShell:
    """Import what every task's process needs, once, and make the shell that they copy.

    One thread: OpenMP's thread pool does not survive a fork.

    Args:
        without: packages that are not there.
    """
    if "torch" not in without:
        import torch

        torch.set_num_threads(1)
        share_no_lock()
        spare()
        rehearse()
    else:
        import_ahead(tasks_in_view())
    for package in without:
        import_module(package)  # what stands in for it
    return LearnerShell()


def main() -> None:
    """Warm up and serve. Arguments: the number of the open file, `own` or `shared`, absent packages."""
    control = inherited_channel(int(sys.argv[1]))
    os.environ[GRADING_VARIABLE] = "1"
    own_namespaces = sys.argv[2] == "own"
    refusal = refusal_of_namespaces() if own_namespaces else ""
    if refusal:
        control.send({"refused": refusal})
        return
    # A collection in a child would write to, and so copy, every page that holds an object: of these it collects none.
    with nothing_collected():
        shell = warm_up(sys.argv[3:])
        gc.collect()
    control.send({"ready": True})
    serve(control, own_namespaces, shell)


if __name__ == "__main__":
    main()
