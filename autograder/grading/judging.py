"""The judge: a process of its own that makes the hidden cases, holds the expectations and never runs learner code.

`python -m autograder.grading.judging SOCKET LIMITS` serves requests of the grading process, each one message with a
number, which the answer repeats. Graphs of a submission run in yet another process (see `runner`), which the judge only
asks, and C++ is built in a sandbox (see `compiling`). That the judge is a process of its own, too, keeps evidence of a
hostile size or form away from the grading.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from autograder.course.judges import (
    UNREADABLE,
    JudgeError,
    error_verdict,
    follow_up,
    hidden_cases,
    instrument_of,
    judge_case,
    visible_cases,
)
from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.exchange.channel import (
    HEADER_LIMIT,
    MESSAGE_LIMIT,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    Message,
    OversizeMessageError,
    Rendezvous,
    connect,
)
from autograder.exchange.scratch import scratch_folder
from autograder.exchange.verdict import CaseVerdict, Finding
from autograder.grading.endings import ENDINGS, JUDGE_CRASHED, OVERRUN
from autograder.grading.sandbox import START_SECONDS, Limits

if TYPE_CHECKING:
    from autograder.exchange.evidence import Case, Instrument

MEMORY_BYTES = 16 << 30
"""Address space of the judge; torch alone maps several GiB."""

SIZES = {"header_limit": 8 * HEADER_LIMIT, "blob_limit": 2 * MESSAGE_LIMIT}
"""Limits of messages between the grading process and the judge: a case, and evidence that grew in the writing (1e15
is written 1000000000000000.0)."""

TOO_LARGE = "it is too large"


class JudgeOutOfStepError(RuntimeError):
    """The judge answered another question than it was asked."""


ENDING_SECONDS = 2.0
"""How long a judge that closed its channel may take to end."""

TRIES = 2
"""How often a case is put to a judge that comes to an end over it: what is in the evidence shows each time."""


class Judge:
    """The judging process as the grading process sees it. Starts again by itself after a crash or a time-out."""

    def __init__(
        self,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        sandboxed: bool | None = None,
    ) -> None:
        """Prepare a judge.

        Args:
            limits: how long it may take over one case, and what a submission's graphs may use.
            environment: variables for its process, besides those of this one.
            sandboxed: whether graphs run in bubblewrap; `None` uses it when it is there.
        """
        self._environment = dict(environment or {})
        self._limits = limits or Limits()
        self._sandboxed = sandboxed
        self._count = 0
        self._questions = 0
        self._submission = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._meeting: Rendezvous | None = None
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        self._files = scratch_folder("fxopt-")
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
                [sys.executable, "-P", "-m", "autograder.grading.judging", str(self._meeting.path), self._how()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"FXOPT_DEVICE": "cpu"} | self._environment,
            )

    def new_submission(self) -> None:
        """What comes now is another learner's: its graphs get a fresh process, and the whole of their time."""
        self._submission += 1

    def _how(self) -> str:
        return json.dumps({"limits": asdict(self._limits), "sandboxed": self._sandboxed})

    def _was_killed(self) -> bool:
        """Whether the process, which closed its channel, was killed from outside."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(ENDING_SECONDS) == -signal.SIGKILL
        return False

    def _stop(self) -> None:
        if self._process is not None:
            # Its runner is in a session of its own and ends with the channel to the judge.
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
                self._channel = self._meeting.accept(START_SECONDS, **SIZES)
                self._channel.receive(START_SECONDS)
            except (ChannelClosedError, ChannelTimeoutError) as error:
                raise self._failed("did not start", error) from error
        return self._channel

    def _failed(self, what: str, error: Exception) -> JudgeError:
        self._stop()
        said = (Path(self._files.name) / "log").read_text(errors="replace")[-2000:].strip()
        return JudgeError(f"the judge {what} ({error}); it printed: {said or 'nothing'}")

    def cases(self, task: Task, seed: str | None = None) -> list[Message]:
        """The visible cases of a task, or the hidden ones that come from `seed`, as messages for the worker.

        Args:
            task: the task.
            hidden: which of the two.
            seed: the secret from which hidden cases come, where it is another one than the judge's own.

        Raises:
            JudgeError: the judge cannot make them.
        """
        try:
            answer = self._ask({"cases": True, "task": task.name, "seed": seed}, START_SECONDS)
            if "failed" in answer:
                raise JudgeError(f"the judge failed on the cases of {task.name}: {answer['failed']}")
            return [self._connected().receive(START_SECONDS) for _ in range(answer["count"])]
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError, JudgeOutOfStepError) as error:
            raise self._failed(f"failed on the cases of {task.name}", error) from error

    def answer(self, task: Task, case: Message, hidden: bool, question: Any, anew: bool) -> Any:
        """What the instrument of a case answers to a question of the learner's side.

        Args:
            task: the task.
            case: the case that the learner's side is at.
            hidden: whether it is a hidden one.
            question: as it came from the learner's side.
            anew: whether a new instrument is to be taken: nothing was asked yet.

        Raises:
            MalformedMessageError: the instrument knows no such question.
            JudgeError: the judge failed.
        """
        request = {"question": question, "anew": anew, "task": task.name, "case": case.header, "hidden": hidden}
        try:
            found = self._ask(request, self._limits.judge_seconds, case.blob)
        except RecursionError as error:
            raise MalformedMessageError("a question that is nested too deeply") from error
        except (ChannelClosedError, ChannelTimeoutError, JudgeOutOfStepError) as error:
            raise self._failed(f"did not answer a question of {task.name}", error) from error
        if "refused" in found:
            raise MalformedMessageError(found["refused"])
        return found["answer"]

    def record(self, task: Task, case: Message, hidden: bool, asked: bool) -> list[Any]:
        """The record of the case's instrument, which is empty when nothing was asked."""
        question = {"record": True, "task": task.name, "case": case.header, "hidden": hidden}
        if not asked:
            return []
        try:
            found: list[Any] = self._ask(question, self._limits.judge_seconds)["record"]
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError, JudgeOutOfStepError) as error:
            raise self._failed(f"lost the record of {task.name}", error) from error
        return found

    def follow_up(self, task: Task, case: Message, evidence: Message) -> Message | None:
        """What a fresh process is to do with what the learner's code made; `None` where there is nothing to go on with.

        Evidence that cannot be read is nothing to go on with either: `judge` says what is wrong with it.
        """
        request = {
            "follow": True,
            "task": task.name,
            "case": case.header,
            "case_bytes": len(case.blob),
            "evidence": evidence.header,
        }
        try:
            # As for a verdict: the time of the judge itself, and that of what it has built.
            found = self._ask(request, 2 * self._limits.judge_seconds, case.blob + evidence.blob)
            return self._connected().receive(self._limits.judge_seconds) if found["more"] else None
        except (RecursionError, OversizeMessageError):
            return None
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError, JudgeOutOfStepError):
            self._stop()
            return None

    def _ask(self, request: dict[str, Any], seconds: float, blob: bytes = b"") -> dict[str, Any]:
        """Send one request; the header of the answer to it, and to no other."""
        channel = self._connected()
        self._questions += 1
        channel.send(request | {"id": self._questions}, blob, timeout=seconds)
        answer = channel.receive(seconds).header
        if answer.get("id") != self._questions:
            raise JudgeOutOfStepError(f"an answer to {answer.get('id')!r} instead of {self._questions}")
        return answer

    def judge(self, task: Task, case: Message, evidence: Message, hidden: bool) -> CaseVerdict:
        """The verdict on one case. A judge that crashes or hangs over the evidence is a verdict on the evidence.

        Raises:
            JudgeError: it was killed from outside again and again, or cannot run graphs here: nobody's fault.
        """
        # The time of the judge itself, and that of the graphs that it has run.
        name, seconds = str(case.header["name"]), 2 * self._limits.judge_seconds
        request = {
            "judge": True,
            "task": task.name,
            "hidden": hidden,
            "submission": self._submission,
            "case": case.header,
            "case_bytes": len(case.blob),
            "evidence": evidence.header,
        }
        for tried in range(1, TRIES + 1):
            # A judge that does not start has said nothing of the evidence.
            self._connected()
            try:
                answer = self._ask(request, seconds, case.blob + evidence.blob)
                break
            except (RecursionError, OversizeMessageError) as error:
                # Nothing was sent. Written once more, it is nested or grown beyond what can be read at all.
                reason = TOO_LARGE if isinstance(error, OversizeMessageError) else "it is nested too deeply"
                return CaseVerdict(name, hidden, (Finding("unreadable evidence", UNREADABLE.format(reason=reason)),))
            except ChannelTimeoutError:
                self._stop()
                return CaseVerdict(name, hidden, (Finding(OVERRUN, ENDINGS[OVERRUN].format(seconds=seconds)),))
            except (ChannelClosedError, MalformedMessageError, JudgeOutOfStepError) as error:
                killed = self._was_killed()
                self._stop()
                if tried == TRIES and killed:
                    raise JudgeError(f"the judge was killed {TRIES} times over one case ({error})") from error
                if tried == TRIES:
                    return CaseVerdict(name, hidden, (Finding(JUDGE_CRASHED, ENDINGS[JUDGE_CRASHED]),))
        if "failed" in answer:
            self._stop()
            raise JudgeError(f"the judge cannot do its work here: {answer['failed']}")
        findings = tuple(
            Finding(**finding | {"fits": tuple(map(tuple, finding["fits"]))}) for finding in answer["findings"]
        )
        asked = self._submission, self._count
        excluded = tuple(
            (question, partial(self._ruled_out, task, asked, names) if isinstance(names, int) else names)
            for question, names in answer["excluded"]
        )
        return CaseVerdict(name, hidden, findings, answer["figures"], excluded)

    def _ruled_out(
        self, task: Task, asked: tuple[int, int], kept: int, names: Collection[str]
    ) -> Collection[str] | None:
        """Which of some mistakes would have shown in a case that is right; `None` where the judge cannot say.

        Only the process that judged the case (`asked`: for which submission, and which process) can, until the next
        submission.
        """
        if self._process is None or asked != (self._submission, self._count):
            return None
        question = {"rule_out": kept, "names": list(names), "task": task.name}
        try:
            answer = self._ask(question, 2 * self._limits.judge_seconds)
        except (ChannelTimeoutError, ChannelClosedError, MalformedMessageError, JudgeOutOfStepError):
            self._stop()
            return None
        excluded: list[str] | None = answer["excluded"]
        return excluded


def serve(channel: Channel, limits: Limits, sandboxed: bool | None) -> None:
    """Answer the grading process until it closes the channel."""
    import resource

    from autograder.exchange.sparing import nothing_collected, spare_later

    with nothing_collected():
        import torch

        from autograder.exchange.building import compilers_run_by
        from autograder.exchange.evidence import Case
        from autograder.exchange.graph_form import graphs_run_by
        from autograder.grading.compiling import compiler_of
        from autograder.grading.runner import RunnerError, SandboxedRunner

    with (
        SandboxedRunner(limits, sandboxed) as runner,
        graphs_run_by(runner),
        compilers_run_by(compiler_of(sandboxed)),
    ):
        torch.set_num_threads(1)
        # The runner's limits are its own, and may be wider: only what this process itself may use is bounded.
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
        channel.send({"ready": True})
        instrument: Instrument | None = None
        submission = None
        ruling_out: list[Callable[[Collection[str]], Collection[str] | None]] = []
        while True:
            try:
                header, blob = channel.receive()
            except ChannelClosedError:
                return
            spare_later()
            task = find_task(header["task"])
            if "cases" in header:
                _send_cases(channel, header, task)
                if _exercises_ask_graphs():
                    runner.start()
                continue
            if "question" in header:
                case = Case.from_message(header["case"], blob)
                instrument = instrument_of(task, case) if header["anew"] else instrument
                channel.send({"id": header["id"]} | _answered(instrument, header["question"]))
                continue
            if "record" in header:
                channel.send({"id": header["id"], "record": instrument.record if instrument else []})
                continue
            if "follow" in header:
                more = _following(task, header, blob)
                channel.send({"id": header["id"], "more": more is not None})
                if more is not None:
                    channel.send(*more.to_message())
                continue
            if "rule_out" in header:
                found = ruling_out[header["rule_out"]](header["names"])
                channel.send({"id": header["id"], "excluded": None if found is None else list(found)})
                continue
            if header["submission"] != submission:
                submission, ruling_out = header["submission"], []
                runner.new_submission()
            runner.new_case((task.name, header["hidden"]))
            try:
                verdict = _verdict(task, header, blob)
            except (RunnerError, OSError) as error:  # of this machine: nothing is said of the evidence
                channel.send({"id": header["id"], "failed": f"{type(error).__name__}: {error}"})
                continue
            excluded: list[tuple[str, list[str] | int]] = []
            for question, names in verdict.excluded:
                # Most answers are right in all cases, and then nobody asks which mistakes a case rules out.
                excluded.append((question, len(ruling_out) if callable(names) else list(names)))
                ruling_out += [names] if callable(names) else []
            findings = [asdict(item) for item in verdict.findings]
            answer = {"findings": findings, "figures": verdict.figures, "excluded": excluded}
            channel.send({"id": header["id"]} | answer)


def _exercises_ask_graphs() -> bool:
    """Whether anything of the exercises that is imported by now has to do with graphs that learners send."""
    graphs = "autograder.exchange.graph_form"
    return any(
        str(getattr(value, "__module__", "")).startswith(graphs)
        for name, module in list(sys.modules.items())
        if name.startswith("autograder.exercises.")
        for value in list(vars(module).values())
    )


def _send_cases(channel: Channel, header: dict[str, Any], task: Task) -> None:
    try:
        cases = visible_cases(task) if header["seed"] is None else hidden_cases(task, header["seed"])
    except Exception as error:  # whatever it is, it is a defect of the exercise, and is reported as one
        channel.send({"id": header["id"], "failed": f"{type(error).__name__}: {error}"})
        return
    channel.send({"id": header["id"], "count": len(cases)})
    for case in cases:
        channel.send(*case.to_message())


def _answered(instrument: Instrument | None, question: Any) -> dict[str, Any]:
    if instrument is None:
        return {"refused": "a question before the first"}
    try:
        return {"answer": instrument.answer(question)}
    except Exception as error:  # the question comes from the learner's side and may be anything
        return {"refused": f"no question that the instrument knows ({type(error).__name__})"}


def _following(task: Task, header: dict[str, Any], blob: bytes) -> Case | None:
    from autograder.exchange.evidence import Case, Evidence

    sent, length = header["evidence"], header["case_bytes"]
    if "raised" in sent:
        return None
    try:
        case = Case.from_message(header["case"], blob[:length])
        return follow_up(task, case, Evidence.from_message(sent, blob[length:]))
    except Exception:  # evidence may have any content; whatever is wrong with it, the verdict on it says so
        return None


def _verdict(task: Task, header: dict[str, Any], blob: bytes) -> CaseVerdict:
    """The verdict on one case, whatever the evidence is."""
    from autograder.exchange.evidence import Case, Evidence, EvidenceError
    from autograder.exchange.graph_form import GraphEndedError
    from autograder.grading.runner import RunnerError

    length, sent, hidden = header["case_bytes"], header["evidence"], header["hidden"]
    case = Case.from_message(header["case"], blob[:length])
    try:
        if "raised" in sent:
            return error_verdict(task, case.name, sent, hidden)
        return judge_case(task, case, Evidence.from_message(sent, blob[length:]), hidden)
    except GraphEndedError as error:
        return CaseVerdict(case.name, hidden, (Finding(error.misconception, error.message),))
    except MemoryError:
        return CaseVerdict(case.name, hidden, (Finding("unreadable evidence", UNREADABLE.format(reason=TOO_LARGE)),))
    except (RunnerError, OSError):
        raise
    except Exception as error:
        # Evidence comes from the learner's side and may have any content; a defect of the judge itself
        # shows in the gate, where it makes the reference fail.
        reason = "malformed" if isinstance(error, EvidenceError) else "unexpected content"
        text = f"{type(error).__name__}: {error}"[:500]
        finding = Finding("unreadable evidence", UNREADABLE.format(reason=reason), text)
        return CaseVerdict(case.name, hidden, (finding,))


def main() -> None:
    """Connect to the grading process and serve. Arguments: the socket, and limits as JSON."""
    given = json.loads(sys.argv[2])
    channel = connect(sys.argv[1], **SIZES)
    serve(channel, Limits(**given["limits"]), given["sandboxed"])


if __name__ == "__main__":
    main()
