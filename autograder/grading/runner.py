"""The judge's way to a process that runs learners' graphs, so that none of them ever runs in the judge's own memory.

A server (`graph_server`), in bubblewrap where it is there, forks a fresh runner for each submission. Processor time
counts over all graphs and cases of a submission, and one task gets at most half of what is left: a graph that never
ends costs its own task, and leaves time for the others. A runner that crashes, hangs or answers nonsense is thrown
away, and the next question goes to a new one.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import fx

from autograder.exchange.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    OversizeMessageError,
    Rendezvous,
)
from autograder.exchange.evidence import EvidenceError, pack_tensors, unpack_tensors
from autograder.exchange.graph_form import EncodedGraph, GraphEndedError, GraphFormatError, encode
from autograder.exchange.graph_form.parcels import pack, unpack
from autograder.exchange.scratch import scratch_folder
from autograder.grading.endings import ENDINGS, GRAPH_CRASHED, HUNGRY, LARGE, SLOW
from autograder.grading.graph_server import QUESTIONS
from autograder.grading.sandbox import START_SECONDS, Limits, bubblewrap, bubblewrap_command
from autograder.grading.view import build_graph_view

WALL_FACTOR = 4.0
"""How much longer than its processor time a graph may take by the clock: a loaded machine is nobody's fault."""

COMMON_EXCEPTIONS = (
    ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, LookupError, NotImplementedError,
    OverflowError, RecursionError, RuntimeError, TypeError, ValueError, ZeroDivisionError,
)  # fmt: skip
"""What a runner may say that a graph raised; anything else arrives as `RuntimeError`."""


GRACE_SECONDS = 2.0
"""How long a runner that closed its channel may take to end."""


class RunnerError(RuntimeError):
    """No runner could be started: a defect of this machine or installation, never the learner's fault."""


@dataclass
class _Loaded:
    """What is known of a graph module that was sent: under which number, how it looked, to which runner."""

    number: int
    digest: str
    runner: int


class SandboxedRunner:
    """Asks questions about graphs in a process that is thrown away after each submission. A context manager."""

    def __init__(self, limits: Limits | None = None, sandboxed: bool | None = None) -> None:
        """Prepare a runner.

        Args:
            limits: `graph_seconds`, `graph_memory_bytes` and `judge_seconds` are those that matter.
            sandboxed: `None` takes bubblewrap when it is there.
        """
        self._limits = limits or Limits()
        self._sandboxed = bubblewrap() is not None if sandboxed is None else sandboxed
        self._process: subprocess.Popen[bytes] | None = None
        self._meeting: Rendezvous | None = None
        self._control: Channel | None = None
        self._channel: Channel | None = None
        self._runners = 0
        self._questions = 0
        self._numbers = 0
        self._asked: set[str] = set()
        self._cpu = 0.0
        self._loaded: WeakKeyDictionary[fx.GraphModule, _Loaded] = WeakKeyDictionary()
        self._task: object = None
        self.isolated = False
        self.new_submission()

    def __enter__(self) -> Self:
        self._files = scratch_folder("fxopt-")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_server()
        self._files.cleanup()

    # What a submission may use

    def new_submission(self) -> None:
        """Throw the runner away and give the next submission the whole of its time."""
        self._drop()
        self._left = self._limits.graph_seconds
        self._task = object()  # no task is this one
        self.new_case(None)

    def new_case(self, task: object) -> None:
        """A case of `task` begins; with the first one of a task, half of what is left becomes its own."""
        if task != self._task:
            self._task = task
            self._share = self._left / 2
        self._case_wall = self._limits.judge_seconds

    # Asking

    def ask(self, question: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """What `question(*arguments)` gives in the runner; see `autograder.exchange.graph_form.ask`.

        Raises:
            GraphEndedError: the graph came to no proper end.
            RunnerError: there is no runner.
            Exception: what the question raised.
        """
        # A runner that imports it itself spends seconds of the learner's time on that, each time anew.
        self._asked |= {question.__module__} & set(QUESTIONS)
        channel = self._connected()
        header, blob = self._request(question, arguments)
        seconds = max(0.01, self._share)
        if self._share <= 0 or self._case_wall <= 0:
            raise self._ended(SLOW)
        started = time.monotonic()
        wall = min(WALL_FACTOR * seconds, self._case_wall)
        try:
            channel.send(header | {"seconds": seconds}, blob, timeout=wall)
            answer, content = channel.receive(max(0.01, wall - (time.monotonic() - started)))
            if answer.get("id") != header["id"]:
                raise MalformedMessageError("the answer to another question")
        except ChannelTimeoutError:
            self._charge(started, seconds)
            self._drop()
            raise self._ended(SLOW) from None
        except ChannelClosedError:
            self._charge(started, seconds)
            raise self._post_mortem() from None
        except OversizeMessageError:
            raise self._ended(LARGE) from None
        except MalformedMessageError:
            self._drop()
            raise self._ended(GRAPH_CRASHED, "it no longer answers") from None
        cpu = answer.get("cpu")
        if type(cpu) is float:
            self._charge(started, cpu - self._cpu)
            self._cpu = cpu
        return self._understood(answer, content)

    def _understood(self, answer: dict[str, Any], content: bytes) -> Any:
        if "exhausted" in answer:
            raise self._ended(LARGE if answer["exhausted"] == "answer" else HUNGRY)
        if "raised" in answer:
            kind = getattr(builtins, str(answer["raised"]), None)
            raise (kind if kind in COMMON_EXCEPTIONS else RuntimeError)(str(answer.get("text"))[:500])
        try:
            return unpack(EncodedGraph(answer.get("value", {}), unpack_tensors(content)))
        except (GraphFormatError, EvidenceError) as error:
            if "too large" in str(error):
                raise self._ended(LARGE) from None
            self._drop()
            raise self._ended(GRAPH_CRASHED, "it no longer answers") from None

    def _request(self, question: Callable[..., Any], arguments: Sequence[Any]) -> tuple[dict[str, Any], bytes]:
        graphs: dict[str, Any] = {}
        tensors: dict[str, torch.Tensor] = {}
        values = []
        for argument in arguments:
            if not isinstance(argument, fx.GraphModule):
                values.append(argument)
                continue
            loaded, encoded = self._load(argument)
            if encoded is not None:
                graphs[str(loaded.number)] = encoded.document
                tensors |= {f"graph{loaded.number}/{name}": tensor for name, tensor in encoded.tensors.items()}
            values.append({"graph": loaded.number})
        parcel = pack(values)
        tensors |= {f"values/{name}": tensor for name, tensor in parcel.tensors.items()}
        self._questions += 1
        header = {
            "id": self._questions,
            "question": f"{question.__module__}:{question.__qualname__}",
            "graphs": graphs,
            "arguments": parcel.document,
            "grad": torch.is_grad_enabled(),
        }
        return header, pack_tensors(tensors)

    def _load(self, graph_module: fx.GraphModule) -> tuple[_Loaded, EncodedGraph | None]:
        """Under which number the runner knows a graph, and the graph itself where the runner has not got it."""
        encoded = encode(graph_module)
        digest = hashlib.sha256(json.dumps(encoded.document, sort_keys=True).encode())
        digest.update(pack_tensors(encoded.tensors))
        known = self._loaded.get(graph_module)
        if known is not None and known.digest == digest.hexdigest() and known.runner == self._runners:
            return known, None
        self._numbers += 1
        loaded = self._loaded[graph_module] = _Loaded(self._numbers, digest.hexdigest(), self._runners)
        return loaded, encoded

    def _charge(self, started: float, cpu: float) -> None:
        """Take what a question cost from the submission's time: processor time, as far as it can be true."""
        wall = time.monotonic() - started
        cost = min(wall, max(cpu, wall / WALL_FACTOR))
        self._case_wall -= wall
        self._left -= cost
        self._share -= cost

    def _ended(self, misconception: str, how: str = "") -> GraphEndedError:
        given = self._limits
        text = ENDINGS[misconception].format(
            how=how,
            budget=given.graph_seconds,
            memory=given.graph_memory_bytes / 2**30,
        )
        return GraphEndedError(misconception, text)

    def _post_mortem(self) -> GraphEndedError | RunnerError:
        """What became of the runner that closed its channel."""
        ended = self._end_runner(GRACE_SECONDS)
        if ended is None:
            return RunnerError("the process that starts those which run graphs was ended from outside")
        status, by_itself = ended
        if os.WIFSIGNALED(status) and by_itself:
            if os.WTERMSIG(status) == signal.SIGKILL:
                # No graph can do that: its limits end in other signals.
                return RunnerError("the process that ran a graph was killed from outside")
            number = os.WTERMSIG(status)
            if number in (signal.SIGPROF, signal.SIGXCPU):
                return self._ended(SLOW)
            names = {signal.SIGSEGV: "it reached memory that is not its own", signal.SIGFPE: "it divided by zero"}
            return self._ended(
                GRAPH_CRASHED, names.get(signal.Signals(number), f"signal {signal.Signals(number).name}")
            )
        return self._ended(GRAPH_CRASHED, "it came to an end")

    # Processes

    def start(self) -> None:
        """Start the server now, if there is none, so that it imports torch while something else is done."""
        if self._process is not None:
            return
        folder = Path(self._files.name)
        self._meeting = Rendezvous(folder, "control")
        # Whoever is going to ask has imported the questions.
        questions = [name for name in QUESTIONS if name in sys.modules]
        command = [sys.executable, "-P", "-m", "autograder.grading.graph_server", str(self._meeting.path), *questions]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "FXOPT_DEVICE": "cpu"}
        if self._sandboxed:
            view = folder / "view"
            if not view.is_dir():
                build_graph_view(view, QUESTIONS)
            command = bubblewrap_command(view, self._limits, shown=folder) + command
            environment = {}
        # What a graph makes torch print may tell hidden inputs: nobody sees it unless no runner starts.
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def _controlled(self) -> Channel:
        self.start()
        if self._control is None:
            assert self._meeting is not None
            self._control = self._meeting.accept(START_SECONDS)
            self._control.receive(START_SECONDS)
        return self._control

    def _not_started(self, error: Exception) -> RunnerError:
        said = (Path(self._files.name) / "log").read_text(errors="replace")[-2000:].strip()
        self._stop_server()
        return RunnerError(f"no process to run graphs in: {error}. It printed: {said or 'nothing'}")

    def _connected(self) -> Channel:
        if self._channel is not None:
            return self._channel
        try:
            control = self._controlled()
            self._runners += 1
            meeting = Rendezvous(Path(self._files.name), f"runner{self._runners}")
            request = {
                "run": str(meeting.path),
                "asked": sorted(self._asked),
                "memory_bytes": self._limits.graph_memory_bytes,
                "seconds": max(1.0, self._left),
            }
            control.send(request, timeout=START_SECONDS)
            self._channel = meeting.accept(START_SECONDS)
            self._cpu = 0.0
            self.isolated = bool(self._channel.receive(START_SECONDS).header.get("isolated"))
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError) as error:
            raise self._not_started(error) from error
        return self._channel

    def _drop(self) -> None:
        """Throw the runner away; the next question gets a new one."""
        if self._channel is not None:
            self._end_runner()

    def _end_runner(self, grace: float = 0.0) -> tuple[int, bool] | None:
        """End the runner.

        Args:
            grace: how many seconds it may take to end by itself.

        Returns:
            Its wait status and whether it ended by itself; `None` when the server did not tell and was ended itself.
        """
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._control is None:
            return None
        try:
            self._control.send({"end": True, "grace": grace}, timeout=10.0)
            answer = self._control.receive(10.0 + grace).header
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError):
            self._stop_server()
            return None
        return int(answer["ended"]), bool(answer["by_itself"])

    def _stop_server(self) -> None:
        for channel in (self._channel, self._control):
            if channel is not None:
                channel.close()
        self._channel = self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._meeting is not None:
            self._meeting.close()
            self._meeting = None

    @property
    def view(self) -> Path:
        """The folder with all of the course that a runner can import (in the sandbox only)."""
        return Path(self._files.name) / "view"
