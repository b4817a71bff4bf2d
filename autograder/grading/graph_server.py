"""The process that runs learners' graphs: it forks a fresh runner for every submission, and knows nothing else.

`python -m autograder.grading.graph_server CONTROL_SOCKET [MODULE…]` imports torch and the MODULEs once and then obeys
the judge: `{"run": SOCKET, "asked": [MODULE…]}` imports these as well and forks a runner, which connects to that
socket, and ends the one before it; `{"end": true}` only ends it. A runner lives in namespaces of its own where the
system gives them, with limits of memory and time, and answers questions about graphs (see
`autograder.exchange.graph_form.ask`). Neither it nor its parent ever has an expectation, the seed, a case that was not
asked about, or the code of a judge.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import resource
import select
import signal
import struct
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import fx

from autograder.exchange.channel import Channel, ChannelClosedError, OversizeMessageError, connect
from autograder.exchange.evidence import pack_tensors, unpack_tensors
from autograder.exchange.forking import share_no_lock
from autograder.exchange.graph_form import EncodedGraph, decode
from autograder.exchange.graph_form.parcels import pack, unpack
from autograder.exchange.graph_form.targets import functions, methods, operators
from autograder.exchange.sparing import nothing_collected, spare_seeding

QUESTIONS = (
    "autograder.exchange.graph_form.questions",
    "autograder.traps.oracle",
    "autograder.exercises.capstone.own_pass.figures",
)
"""Modules with questions: all that a runner may be asked. They may import nothing that holds an answer."""

LATE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.utils._device",
    "safetensors.torch",
    "numpy.ctypeslib",
)
"""What is imported at the first gradient, draw or tensor that is sent: up to 0.7 s in every new runner."""

TEXT_LIMIT = 500
"""Most characters of the text of an exception that are sent."""

END_SECONDS = 5.0
"""How long the first process of a runner's namespaces may take to end the runner."""

_NEW_NAMESPACES = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000  # user, process ids, network, System V
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_EXHAUSTED = ("not enough memory", "bad_alloc", "Cannot allocate memory", "DefaultCPUAllocator")


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def serve(control: Channel) -> None:
    """Obey the judge until it closes the channel."""
    control.send({"ready": True})
    current: _Forked | None = None
    while True:
        try:
            request = control.receive().header
        except ChannelClosedError:
            if current is not None:
                current.end()
            return
        gone = current is not None and current.gone(request.get("grace", 0.0))
        status = current.end() if current is not None else 0
        current = None
        if "run" in request:
            with nothing_collected():
                for name in request["asked"]:
                    import_module(name)
            current = _Forked(request["run"], request["memory_bytes"], request["seconds"], control)
        else:
            control.send({"ended": status, "by_itself": gone})


class _Forked:
    """A runner, and the process between it and the server that makes its namespaces."""

    def __init__(self, path: str, memory_bytes: int, seconds: float, control: Channel) -> None:
        reading, writing = os.pipe()
        self._between = os.fork()
        if self._between == 0:
            os.close(reading)
            control.close()
            _stand_between(writing, path, memory_bytes, seconds)
        os.close(writing)
        self._reading = reading
        content = os.read(reading, 4)
        self._runner = struct.unpack("i", content)[0] if len(content) == 4 else 0

    def gone(self, seconds: float) -> bool:
        """Whether the runner has ended, or does so within some seconds, without being told to."""
        return bool(select.select([self._reading], [], [], seconds)[0])

    def end(self) -> int:
        """Kill the runner, if it still lives; the wait status with which it ended."""
        first = self._runner or self._between
        # The first process ends the runner and tells how it ended, which may have been before. It does so at once; if
        # it does not, it goes too.
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(first, sign)
            if select.select([self._reading], [], [], END_SECONDS)[0]:
                break
        content = os.read(self._reading, 4)
        os.close(self._reading)
        os.waitpid(self._between, 0)
        status: int = struct.unpack("i", content)[0] if len(content) == 4 else signal.SIGKILL
        return status


def _stand_between(writing: int, path: str, memory_bytes: int, seconds: float) -> None:
    """Fork the first process of new namespaces, say its process id, then the runner's wait status. Never returns."""
    try:
        os.setsid()
        isolated = sys.platform == "linux" and _libc().unshare(_NEW_NAMESPACES) == 0
        told, telling = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(writing)
            os.close(told)
            _be_first(telling, path, memory_bytes, seconds, isolated)
        os.close(telling)
        os.write(writing, struct.pack("i", first))
        os.waitpid(first, 0)
        os.write(writing, os.read(told, 4) or struct.pack("i", signal.SIGKILL))
    finally:
        os._exit(0)


def _be_first(telling: int, path: str, memory_bytes: int, seconds: float, isolated: bool) -> None:
    """Fork the runner and tell its wait status. Never returns.

    The first process of a namespace is deaf to signals that it does not handle, those of its own timers among them;
    the runner must not be. When the first process ends, all others of the namespace do.
    """
    try:
        _die_with_parent()
        # An order to end that comes before there is a runner waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        runner = os.fork()
        if runner == 0:
            os.close(telling)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            code = 1
            try:
                _limit(memory_bytes, seconds)
                answer(connect(path), isolated)
                code = 0
            finally:
                os._exit(code)
        signal.signal(signal.SIGTERM, lambda *_: _kill(runner))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        _, status = os.waitpid(runner, 0)
        os.write(telling, struct.pack("i", status))
    finally:
        os._exit(0)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _libc().prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _limit(memory_bytes: int, seconds: float) -> None:
    """Bound memory, processor time and files of this process, and let it die with its parent."""
    _die_with_parent()
    if sys.platform == "linux":
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes,) * 2)
    whole = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
    # `torch.cond` compiles its branches, and whoever compiles wants a temporary folder in which a file can be made.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer(channel: Channel, isolated: bool) -> None:
    """Answer one question after another until the judge closes the channel."""
    channel.send({"ready": True, "isolated": isolated})
    graphs: dict[int, fx.GraphModule] = {}
    while True:
        try:
            header, blob = channel.receive()
        except ChannelClosedError:
            return
        # Processor time, which a loaded machine does not stretch; the judge counts wall time as well.
        signal.setitimer(signal.ITIMER_PROF, header["seconds"])
        reply, content = _reply(header, blob, graphs)
        signal.setitimer(signal.ITIMER_PROF, 0)
        reply |= {"id": header["id"], "cpu": sum(os.times()[:2])}
        try:
            channel.send(reply, content)
        except OversizeMessageError:
            channel.send({"id": header["id"], "cpu": reply["cpu"], "exhausted": "answer"})


def _reply(header: Mapping[str, Any], blob: bytes, graphs: dict[int, fx.GraphModule]) -> tuple[dict[str, Any], bytes]:
    try:
        tensors = unpack_tensors(blob)
        for number, document in header["graphs"].items():
            graphs[int(number)] = decode(EncodedGraph(document, _of(tensors, f"graph{number}")))
        values = unpack(EncodedGraph(header["arguments"], _of(tensors, "values")))
        arguments = [graphs[value["graph"]] if type(value) is dict and "graph" in value else value for value in values]
        module, _, name = header["question"].partition(":")
        torch.manual_seed(0)
        with torch.set_grad_enabled(header["grad"]):
            found = getattr(import_module(module), name)(*arguments)
            if inspect.isgenerator(found):
                found = list(found)
        parcel = pack(found)
        return {"value": parcel.document}, pack_tensors(parcel.tensors)
    except MemoryError:
        return {"exhausted": "memory"}, b""
    except Exception as error:  # a graph raises whatever it likes
        text = str(error)[:TEXT_LIMIT]
        if any(words in text for words in _EXHAUSTED):
            return {"exhausted": "memory"}, b""
        kind = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
        return {"raised": kind, "text": text}, b""


def _of(tensors: Mapping[str, torch.Tensor], owner: str) -> dict[str, torch.Tensor]:
    return {name.partition("/")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{owner}/")}


def warm_up(names: Sequence[str]) -> None:
    """Import and compute what runners need, once. One thread: OpenMP's pool does not survive a fork.

    Args:
        names: modules of `QUESTIONS` to import before the first fork; a runner imports any other one that it is asked
            for.
    """
    torch.set_num_threads(1)
    share_no_lock()
    spare_seeding()
    tempfile.gettempdir()
    for name in (*names, *LATE):
        import_module(name)
    for table in (functions, methods, operators):
        table()
    graph = fx.Graph()
    graph.output((graph.call_function(torch.relu, (graph.placeholder("x"),)),))
    fx.Interpreter(fx.GraphModule({}, graph)).run(torch.ones(2))


def main() -> None:
    """Connect to the judge and serve. Arguments: the control socket, modules to import ahead."""
    if sys.platform == "linux":
        # Runners are of the same user: none may look into the server's memory.
        _libc().prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    control = connect(sys.argv[1])
    with nothing_collected():
        warm_up(sys.argv[2:])
    serve(control)


if __name__ == "__main__":
    main()
