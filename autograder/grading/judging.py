"""The judge: a process of its own that makes the hidden cases, holds the expectations and never runs learner code.

`python -m autograder.grading.judging SOCKET` serves requests of the grading process. It is a process of its own so
that a graph from a hostile submission that takes for ever or fills memory ends the judge, not the grading.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from autograder.course.judges import UNREADABLE, JudgeError, error_verdict, hidden_cases, judge_case, visible_cases
from autograder.course.task import Task
from autograder.exchange.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    Message,
    Rendezvous,
    connect,
    private_folder,
)
from autograder.exchange.verdict import CaseVerdict, Finding

START_SECONDS = 120.0
"""How long the judge may take to import torch and to make the cases of a task."""

JUDGE_SECONDS = 60.0
"""How long the judge may take over one case."""

OVERRUN = "judge overrun"
"""The misconception of evidence over which the judge crashed or hung."""


class Judge:
    """The judging process as the grading process sees it. Starts again by itself after a crash or a time-out."""

    def __init__(self, seed: str, seconds: float = JUDGE_SECONDS, environment: Mapping[str, str] | None = None) -> None:
        """Prepare a judge.

        Args:
            seed: the secret from which hidden cases come.
            seconds: how long it may take over one case.
            environment: variables for its process, besides those of this one.
        """
        self._environment = dict(environment or {})
        self._seed = seed
        self._seconds = seconds
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._meeting: Rendezvous | None = None
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        self._files = private_folder()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._files.cleanup()

    def start(self) -> None:
        """Start the process now, so that it imports torch while something else is done."""
        self._count += 1
        folder = Path(self._files.name)
        self._meeting = Rendezvous(folder, f"judge{self._count}")
        # What the judge prints (a warning of torch, say) may tell hidden inputs: nobody sees it unless it fails.
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "autograder.grading.judging", str(self._meeting.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"FXOPT_DEVICE": "cpu"} | self._environment,
            )

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._meeting is not None:
            self._meeting.close()
            self._meeting = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _connected(self) -> Channel:
        if self._process is None:
            self.start()
        if self._channel is None:
            assert self._meeting is not None
            try:
                self._channel = self._meeting.accept(START_SECONDS)
                self._channel.receive(START_SECONDS)
            except (ChannelClosedError, ChannelTimeoutError) as error:
                raise self._failed("did not start", error) from error
        return self._channel

    def _failed(self, what: str, error: Exception) -> JudgeError:
        self._stop()
        said = (Path(self._files.name) / "log").read_text(errors="replace")[-2000:].strip()
        return JudgeError(f"the judge {what} ({error}); it printed: {said or 'nothing'}")

    def cases(self, task: Task, hidden: bool) -> list[Message]:
        """The visible or the hidden cases of a task, as messages for the worker.

        Raises:
            JudgeError: the judge cannot make them.
        """
        channel = self._connected()
        try:
            request = {"cases": True, "task": task.name, "hidden": hidden, "seed": self._seed}
            channel.send(request, timeout=START_SECONDS)
            answer = channel.receive(START_SECONDS).header
            if "failed" in answer:
                raise JudgeError(f"the judge failed on the cases of {task.name}: {answer['failed']}")
            return [channel.receive(START_SECONDS) for _ in range(answer["count"])]
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError) as error:
            raise self._failed(f"failed on the cases of {task.name}", error) from error

    def judge(self, task: Task, case: Message, evidence: Message, hidden: bool) -> CaseVerdict:
        """The verdict on one case. A judge that crashes or hangs over the evidence is a verdict on the evidence."""
        name = str(case.header["name"])
        header = {"judge": True, "task": task.name, "hidden": hidden, "case": case.header}
        channel = self._connected()
        try:
            channel.send(header, case.blob, timeout=self._seconds)
            try:
                channel.send(evidence.header, evidence.blob, timeout=self._seconds)
            except RecursionError:
                # Nested almost as deeply as can be read at all.
                self._stop()
                finding = Finding("unreadable evidence", UNREADABLE.format(reason="it is nested too deeply"))
                return CaseVerdict(name, hidden, (finding,))
            answer = channel.receive(self._seconds).header
        except (ChannelClosedError, ChannelTimeoutError):
            self._stop()
            message = "What your code produced took the judge too long, or too much memory, to run."
            return CaseVerdict(name, hidden, (Finding(OVERRUN, message),))
        findings = tuple(Finding(*finding) for finding in answer["findings"])
        return CaseVerdict(name, hidden, findings, answer["figures"])


def serve(channel: Channel) -> None:
    """Answer the grading process until it closes the channel."""
    import resource

    import torch

    from autograder.course.tasks import find_task
    from autograder.exchange.evidence import Case, Evidence, EvidenceError

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    channel.send({"ready": True})
    while True:
        try:
            header, blob = channel.receive()
        except ChannelClosedError:
            return
        task = find_task(header["task"])
        if "cases" in header:
            try:
                cases = hidden_cases(task, header["seed"]) if header["hidden"] else visible_cases(task)
            except Exception as error:  # whatever it is, it is a defect of the exercise, and is reported as one
                channel.send({"failed": f"{type(error).__name__}: {error}"})
                continue
            channel.send({"count": len(cases)})
            for case in cases:
                channel.send(*case.to_message())
            continue
        sent = channel.receive()
        case = Case.from_message(header["case"], blob)
        try:
            if "raised" in sent.header:
                verdict = error_verdict(task, case.name, sent.header, header["hidden"])
            else:
                verdict = judge_case(task, case, Evidence.from_message(sent.header, sent.blob), header["hidden"])
        except Exception as error:
            # Evidence comes from the learner's side and may have any content; a defect of the judge itself
            # shows in the gate, where it makes the reference fail.
            reason = "malformed" if isinstance(error, EvidenceError) else "unexpected content"
            text = f"{type(error).__name__}: {error}"[:500]
            finding = Finding("unreadable evidence", UNREADABLE.format(reason=reason), text)
            verdict = CaseVerdict(case.name, header["hidden"], (finding,))
        findings = [[item.misconception, item.message, item.detail] for item in verdict.findings]
        channel.send({"findings": findings, "figures": verdict.figures})


if __name__ == "__main__":
    serve(connect(sys.argv[1]))
