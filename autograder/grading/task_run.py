"""One task on one forked child of the worker, in one of the two rounds. Runs nothing itself, and imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autograder.course.notebooks import clean_outputs
from autograder.course.task import Task
from autograder.exchange.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    Message,
)
from autograder.exchange.verdict import (
    NOT_WRITTEN,
    CaseVerdict,
    Finding,
    Status,
    TaskOutcome,
    one_line,
    outcome_from_verdicts,
)
from autograder.grading.budget import BEFORE_IT, CUT_SHORT, DID_NOT_FINISH, ENDED, LOOPS, TOO_MUCH_TO_JUDGE, Budget
from autograder.grading.endings import ENDINGS, OVERRUN
from autograder.grading.judging import Judge
from autograder.grading.sandbox import Limits, Worker

OUTPUT_LIMIT = 32 * 1024 * 1024
"""Most characters of output that are kept of one notebook's cells."""

MOST_QUESTIONS = 5000
"""How often an instrument may be asked in one case."""

MESSAGES: dict[Status, str] = {
    "time limit": LOOPS,
    "memory limit": "Stopped: your code used more than {memory:.0f} GiB of memory.",
    "process limit": "Stopped: your code started more than {processes} processes.",
    "crashed": "The Python process ended while your code ran (a call of exit, or a crash).",
}

DISTURBED = "Your code disturbed the grading process; nothing that it said could be read."

FAILED_BEFORE = (
    "A cell above your answer failed first, so what it was to define is missing: {kind}: {text} "
    "(in the cell that begins with `{line}`)."
)

NOT_AGAIN = "Run a second time, your notebook did not define {names} again: the same cells must always do the same."

Watch = Callable[[Task, Message, Message], None]
"""What is told each visible case and its evidence, for showing them."""


class TaskRun:
    """One task on one forked child, in one of the two rounds.

    Attributes:
        until_failure: whether the first case that fails ends it.
        running_cell: id of the cell that is running now; `None` once all cases are judged.
        defining: whether the learner's cells are still running, not yet the cases.
        outputs: what the cells printed, by their ids.
    """

    def __init__(
        self,
        worker: Worker,
        task: Task,
        cells: list[dict[str, str]],
        limits: Limits,
        budget: Budget,
        hidden: bool,
        watch: Watch | None,
    ) -> None:
        self._watch = watch
        self._worker, self._task, self._limits, self._hidden = worker, task, limits, hidden
        self._cells = cells
        self._budget = budget
        self._allowed = self._left = min(task.seconds, budget.left)
        self._timed_out = False
        self.until_failure = False
        self.running_cell: str | None = None
        self.defining = True
        self.outputs: dict[str, list[dict[str, Any]]] = {}

    def outcome(self, cases: list[Message], judge: Judge) -> TaskOutcome | None:
        """The outcome, or `None` when the child did not live to the end of the learner's cells or cases."""
        channel: Channel | None = None
        gone = False
        try:
            channel = self._worker.run(self._cells, self._task)
            missing = self._run_cells(channel)
            if missing:
                return self._not_defined(missing)
            return self._run_cases(channel, cases, judge)
        except ChannelTimeoutError:
            self._timed_out = True
            return None
        except ChannelClosedError:
            gone = True
            return None
        except MalformedMessageError:
            # Only code that reached for the worker's own channel gets here.
            return TaskOutcome(self._task.name, self._task.title, "crashed", [DISTURBED], ["malformed"])
        finally:
            if channel is not None:
                channel.close()
            self._worker.end_run(gone)

    def _receive(self, channel: Channel) -> Message:
        # Only the learner's side uses up the learner's time; what the judge does meanwhile does not.
        started = time.monotonic()
        try:
            return channel.receive(max(0.01, self._left))
        finally:
            took = time.monotonic() - started
            self._left -= took
            self._budget.used += took

    def _run_cells(self, channel: Channel) -> list[str]:
        """Follow the cells to their end; the names that they do not define.

        The only story that is listened to: each cell begins and is done, in order and once, then the missing names.
        """
        kept = 0
        for name in [cell["id"] for cell in self._cells]:
            if self._receive(channel).header != {"cell": name}:
                raise MalformedMessageError("another cell than was asked for")
            self.running_cell = name
            header = self._receive(channel).header
            if header.get("done") != name:
                raise MalformedMessageError("another cell than was begun")
            self.outputs[name], size = clean_outputs(header.get("outputs"), OUTPUT_LIMIT - kept)
            kept += size
        self.running_cell = None
        missing = self._receive(channel).header.get("missing")
        if not isinstance(missing, list):
            raise MalformedMessageError("no list of names")
        return [name for name in self._task.provides if name in missing]

    def _not_defined(self, missing: list[str]) -> TaskOutcome:
        names = ", ".join(f"`{name}`" for name in missing)
        if self._hidden:
            message = NOT_AGAIN.format(names=names)
            return TaskOutcome(self._task.name, self._task.title, "error", [message], ["not defined again"])
        own = self.outputs.get(self._task.answer_id, [])
        error = next((item for item in own if item["output_type"] == "error"), None)
        before = self._failed_before()
        if before and (error is None or error["ename"] == "NameError"):
            return TaskOutcome(self._task.name, self._task.title, "error", [before], ["a cell above"])
        if error is not None:
            kind = one_line(error["ename"], 80)
            message = f"Your cell raises {kind}: {one_line(error['evalue'], 300)}"
            name = "withheld import" if kind == "WithheldImportError" else "raised"
            return TaskOutcome(self._task.name, self._task.title, "error", [message], [name])
        message = f"Your notebook does not define {names}. Was the cell removed or the name changed?"
        return TaskOutcome(self._task.name, self._task.title, "not written", [message], ["not defined"])

    def _failed_before(self) -> str:
        """Which cell above the answer raised first, in words; `""` where none did."""
        for cell in self._cells:
            if cell["id"] == self._task.answer_id:
                break
            error = next((item for item in self.outputs.get(cell["id"], []) if item["output_type"] == "error"), None)
            if error is not None:
                line = next((line for line in cell["source"].splitlines() if line.strip()), "")
                return FAILED_BEFORE.format(
                    kind=one_line(error["ename"], 80), text=one_line(error["evalue"], 300), line=one_line(line, 80)
                )
        return ""

    def _run_cases(self, channel: Channel, cases: list[Message], judge: Judge) -> TaskOutcome | None:
        self.running_cell, self.defining = self._task.answer_id, False
        verdicts: list[CaseVerdict | None] = []
        further: dict[int, Message] = {}
        for case in cases:
            evidence = self._evidence_on(channel, case, judge)
            raised = evidence.header.get("raised")
            # Of an exception inside another one (Dynamo wraps what a backend raises) only the text tells.
            undefined = raised is not None and "NameError: " in str(evidence.header.get("text"))
            if undefined and not self._hidden and (before := self._failed_before()):
                return TaskOutcome(self._task.name, self._task.title, "error", [before], ["a cell above"])
            if raised == "NotImplementedError" and not self._hidden:
                return TaskOutcome(self._task.name, self._task.title, "not written", [NOT_WRITTEN], ["not written"])
            if self._task.fresh and (more := self._followed(judge, case, evidence)) is not None:
                further[len(verdicts)] = more
                verdicts.append(None)
                continue
            verdict = self._judged(judge, case, evidence)
            verdicts.append(verdict)
            if any(finding.misconception in ENDINGS for finding in verdict.findings):
                break  # each further case would hold up everybody else for as long again
            if self.until_failure and not verdict.passed:
                break
        if further:
            self._go_on(further, cases, verdicts, judge)
        self.running_cell = None
        with self._judging():  # to say which one mistake explains all that is wrong may mean to ask the judge again
            return outcome_from_verdicts(
                self._task.name, self._task.title, [verdict for verdict in verdicts if verdict]
            )

    def _go_on(
        self, further: dict[int, Message], cases: list[Message], verdicts: list[CaseVerdict | None], judge: Judge
    ) -> None:
        """Hand what the learner's code made to a process in which none of its cells ran; fills the verdicts."""
        self._worker.end_run()
        channel = self._worker.run([], self._task, fresh=True)
        try:
            for position, more in further.items():
                channel.send(more.header, more.blob, timeout=max(0.01, self._left))
                verdicts[position] = self._judged(judge, cases[position], self._receive(channel))
        finally:
            channel.close()

    def _evidence_on(self, channel: Channel, case: Message, judge: Judge) -> Message:
        """What the learner's side has to say of a case; meanwhile it may ask the case's instrument."""
        sent = {name: value for name, value in case.header.items() if name != "kept"}
        channel.send(sent, case.blob, timeout=max(0.01, self._left))
        asked = 0
        while True:
            evidence = self._receive(channel)
            if not self._task.instrument or "asked" not in evidence.header:
                break
            if asked >= MOST_QUESTIONS:
                raise ChannelTimeoutError("questions without end")
            if self._too_much_to_judge:
                return evidence  # whatever it asks: that nothing more is judged is what there is to say
            with self._judging():
                answer = judge.answer(self._task, case, self._hidden, evidence.header["asked"], anew=asked == 0)
            asked += 1
            channel.send({"answer": answer}, timeout=max(0.01, self._left))
        values = evidence.header.get("values")
        if self._task.instrument and isinstance(values, dict):
            # Whatever the learner's side says of it: what the instrument saw is on record outside.
            with self._judging():
                seen = judge.record(self._task, case, self._hidden, asked > 0)
            evidence = Message(evidence.header | {"values": values | {"seen": seen}}, evidence.blob)
        return evidence

    def _judged(self, judge: Judge, case: Message, evidence: Message) -> CaseVerdict:
        if self._watch is not None and "raised" not in evidence.header:
            self._watch(self._task, case, evidence)
        if self._too_much_to_judge:
            text = TOO_MUCH_TO_JUDGE.format(budget=self._budget.seconds_to_judge)
            return CaseVerdict(str(case.header["name"]), self._hidden, (Finding(OVERRUN, text),))
        with self._judging():
            return judge.judge(self._task, case, evidence, self._hidden)

    def _followed(self, judge: Judge, case: Message, evidence: Message) -> Message | None:
        """What a fresh process is to do next: to find out may mean to build a learner's C++, for minutes."""
        if self._too_much_to_judge:
            return None
        with self._judging():
            return judge.follow_up(self._task, case, evidence)

    @property
    def _too_much_to_judge(self) -> bool:
        return self._budget.judged >= self._budget.seconds_to_judge

    @contextmanager
    def _judging(self) -> Iterator[None]:
        """Whatever the judge is asked counts: verdicts, questions to an instrument, and what it has built."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._budget.judged += time.monotonic() - started

    def failure(self) -> TaskOutcome:
        """The outcome of a run whose child did not live to the end."""
        status: Status = "crashed"
        if self._worker.violation is not None:
            status = self._worker.violation
        elif self._timed_out:
            status = "time limit"
        message = MESSAGES[status].format(
            seconds=self._task.seconds,
            memory=self._limits.memory_bytes / 2**30,
            processes=self._limits.processes,
        )
        if self._timed_out and self._allowed < self._task.seconds:
            message = CUT_SHORT.format(budget=self._budget.seconds)
        elif self.defining and self.running_cell not in (None, self._task.answer_id):
            what = {"time limit": DID_NOT_FINISH.format(seconds=self._allowed), "crashed": ENDED}.get(status)
            if what is not None:
                message = BEFORE_IT.format(cell=self.running_cell, what=what)
        return TaskOutcome(self._task.name, self._task.title, status, [message], [status])
