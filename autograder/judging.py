"""The judge: a process of its own that makes the hidden cases, holds the expectations and never runs learner code.

`python -m autograder.judging SOCKET` serves requests of the grading process. It is a process of its own so
that a graph from a hostile submission that takes for ever or fills memory ends the judge, not the grading.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from autograder.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    Rendezvous,
    connect,
    private_folder,
)
from autograder.tasks import Task
from autograder.verdict import CaseVerdict, Finding

if TYPE_CHECKING:
    from autograder.evidence import Case, Evidence

JUDGE_SECONDS = 120.0
"""How long the judge may take over one case."""

UNREADABLE = "What your code produced could not be read back: {reason}."
RAISED = "Your code raised {kind}."


class JudgeError(RuntimeError):
    """The judge itself failed: a defect of the exercise or of this machine, never the learner's fault."""


def judge_module(task: Task) -> ModuleType:
    """The task's judge. Only judges and checks import it; the sandbox does not have it."""
    return import_module(task.module + ".judge")


def visible_cases(task: Task) -> list[Case]:
    """The cases that a learner sees."""
    return list(import_module(task.module + ".visible").visible_cases())


def hidden_cases(task: Task, seed: str) -> list[Case]:
    """The cases that come from the secret seed; the same seed gives the same cases."""
    return list(judge_module(task).hidden_cases(random.Random(f"{seed}/{task.name}")))


def judge_case(task: Task, case: Case, evidence: Evidence, hidden: bool) -> CaseVerdict:
    """The judge's findings on the evidence of one case.

    Raises:
        JudgeError: the judge names a misconception that its table does not have.
    """
    from fxopt_core.graphs import GraphFormatError

    module = judge_module(task)
    try:
        found = list(module.judge(case, evidence))
    except GraphFormatError as error:
        found = [("unreadable graph", "", UNREADABLE.format(reason=error))]
    findings = []
    for item in found:
        if isinstance(item, str):
            item = (item, "")
        name, detail = item[0], item[1]
        message = item[2] if len(item) == 3 else module.MISCONCEPTIONS.get(name)
        if message is None:
            raise JudgeError(f"{task.name}: the judge found {name!r}, which its MISCONCEPTIONS do not explain")
        findings.append(Finding(name, message, detail))
    return CaseVerdict(case.name, hidden, tuple(findings))


def error_verdict(task: Task, case_name: str, raised: dict[str, Any], hidden: bool) -> CaseVerdict:
    """The verdict on a case in which the learner's code raised. Text of exceptions is shown for visible cases only."""
    name = "withheld import" if raised["raised"] == "WithheldImportError" else "raised"
    # The name of the exception class is chosen by the learner's code; that of its built-in base is not.
    message = str(raised["text"]) if name == "withheld import" else RAISED.format(kind=raised["raised"])
    return CaseVerdict(case_name, hidden, (Finding(name, message, str(raised["text"])),))


class Judge:
    """The judging process as the grading process sees it. Restarts by itself after a crash or a time-out."""

    def __init__(self, seed: str) -> None:
        """Prepare a judge whose hidden cases come from `seed`."""
        self._seed = seed
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        self._sockets = private_folder()
        self._count = 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._sockets.cleanup()

    def start(self) -> None:
        """Start the process now, so that it imports torch while something else is done."""
        self._count += 1
        self._meeting = Rendezvous(Path(self._sockets.name), f"judge{self._count}")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "autograder.judging", str(self._meeting.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"FXOPT_DEVICE": "cpu"},
        )

    def _stop(self) -> None:
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.wait()
            del self._process
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _ask(self, header: dict[str, Any], blobs: list[bytes]) -> Message:
        if not hasattr(self, "_process"):
            self.start()
        if self._channel is None:
            self._channel = self._meeting.accept(JUDGE_SECONDS)
        try:
            self._channel.send(header, blobs[0] if blobs else b"")
            for blob in blobs[1:]:
                self._channel.send({}, blob)
            answer = self._channel.receive(JUDGE_SECONDS)
        except (ChannelClosedError, ChannelTimeoutError):
            self._stop()
            raise
        if "failed" in answer.header:
            raise JudgeError(f"the judge failed on {header.get('task')}: {answer.header['failed']}")
        return answer

    def cases(self, task: Task, hidden: bool) -> list[Message]:
        """The visible or the hidden cases of a task, as messages for the worker."""
        first = self._ask({"cases": True, "task": task.name, "hidden": hidden, "seed": self._seed}, [])
        assert self._channel is not None
        return [self._channel.receive(JUDGE_SECONDS) for _ in range(first.header["count"])]

    def judge(self, task: Task, case: Message, evidence: Message, hidden: bool) -> CaseVerdict:
        """The verdict on one case. A judge that crashes or hangs over the evidence is a verdict on the evidence."""
        header = {
            "judge": True,
            "task": task.name,
            "hidden": hidden,
            "case": case.header,
            "evidence": evidence.header,
        }
        try:
            answer = self._ask(header, [case.blob, evidence.blob]).header
        except (ChannelClosedError, ChannelTimeoutError):
            message = "What your code produced took the judge too long, or too much memory, to run."
            return CaseVerdict(str(case.header["name"]), hidden, (Finding("judge overrun", message),))
        findings = tuple(Finding(*finding) for finding in answer["findings"])
        return CaseVerdict(answer["case"], hidden, findings)


def serve(channel: Channel) -> None:
    """Answer the grading process until it closes the channel."""
    import resource

    import torch

    from autograder.evidence import Case, Evidence, EvidenceError
    from autograder.tasks import find_task

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    while True:
        try:
            message = channel.receive()
        except ChannelClosedError:
            return
        header = message.header
        task = find_task(header["task"])
        try:
            if "cases" in header:
                cases = hidden_cases(task, header["seed"]) if header["hidden"] else visible_cases(task)
                channel.send({"count": len(cases)})
                for case in cases:
                    channel.send(*case.to_message())
                continue
            evidence_blob = channel.receive().blob
            case = Case.from_message(header["case"], message.blob)
            if "raised" in header["evidence"]:
                verdict = error_verdict(task, case.name, header["evidence"], header["hidden"])
            else:
                try:
                    evidence = Evidence.from_message(header["evidence"], evidence_blob)
                    verdict = judge_case(task, case, evidence, header["hidden"])
                except EvidenceError as error:
                    finding = Finding("unreadable evidence", UNREADABLE.format(reason="malformed"), str(error))
                    verdict = CaseVerdict(case.name, header["hidden"], (finding,))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if "cases" in header:
                channel.send({"failed": text})
                continue
            # Evidence comes from the learner's side and may have any content; a defect of the judge itself
            # shows in the gate, where it makes the reference fail.
            finding = Finding("unreadable evidence", UNREADABLE.format(reason="unexpected content"), text)
            verdict = CaseVerdict(header["case"]["name"], header["hidden"], (finding,))
        findings = [[finding.misconception, finding.message, finding.detail] for finding in verdict.findings]
        channel.send({"case": verdict.case, "findings": findings})


if __name__ == "__main__":
    serve(connect(sys.argv[1]))
