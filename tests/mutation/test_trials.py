"""Mutants on the grading path: what kills them, what survives, and what none of them can stop."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autograder.course.course import Course
from autograder.course.tasks import find_task
from autograder.exchange.channel import Message
from autograder.exchange.verdict import CaseVerdict, Finding, TaskOutcome
from autograder.grading.judging import Judge
from autograder.grading.sandbox import bubblewrap
from autograder.mutation import trials as module
from autograder.mutation.answers import AuthoredNotebook
from autograder.mutation.trials import LIMITS, NotPassedError, Trials, parted, seeds_of

COURSE = Course(Path(__file__).resolve().parents[2])
TASK = find_task("conv_output_shape")


def case(name: str, number: int = 0) -> Message:
    return Message({"name": name, "parameters": {"number": number}}, b"")


def test_a_hidden_case_is_fixed_when_every_seed_gives_it() -> None:
    a, b, c = case("a"), case("b"), case("c")
    cases = parted([], [[a, case("d", 1), b], [a, case("d", 2), b], [a, b, c]])
    assert cases.fixed == [a, b]
    assert cases.drawn == [[case("d", 1)], [case("d", 2)], [c]]
    assert cases.rearranged
    assert not parted([], [[a, case("d", 1)], [a, case("d", 2)]]).rearranged
    assert parted([], [[a, b]]).fixed == []  # one seed cannot tell


class FakeGrader:
    """Fails the cases of its list, and says what it was asked."""

    def __init__(self, failing: set[tuple[str, int]]) -> None:
        self.failing, self.asked = failing, []

    def submission(self) -> Any:
        return nullcontext()

    def round_until_failure(self, task: Any, cells: Any, cases: list[Message], hidden: bool) -> TaskOutcome:
        verdicts = []
        for item in cases:
            name, number = item.header["name"], item.header["parameters"]["number"]
            self.asked.append((name, number))
            wrong = (name, number) in self.failing
            verdicts.append(CaseVerdict(name, hidden, (Finding("off", "It is off."),) if wrong else ()))
            if wrong:
                return TaskOutcome("t", "T", "wrong", ["It is off."], ["off"], verdicts)
        return TaskOutcome("t", "T", "passed", [], [], verdicts)


def tried(failing: set[tuple[str, int]]) -> tuple[module.Verdict, FakeGrader]:
    hidden = [[case("drawn", seed), case("fixed"), case("late", seed)] for seed in (1, 2, 3)]
    trials = Trials.__new__(Trials)
    fake = FakeGrader(failing)
    trials._longest_round = 0.0
    trials._grader, trials._cases = fake, {TASK.name: parted([case("seen")], hidden)}  # type: ignore[assignment]
    return trials._tried(TASK, []), fake


@pytest.mark.parametrize(
    ("failing", "status", "by", "fixed", "asked"),
    [
        ({("seen", 0)}, "killed", "visible case 'seen': off", True, 1),
        ({("fixed", 0), ("drawn", 2)}, "killed", "hidden case 'fixed': off", True, 2),
        ({("drawn", 1), ("late", 2), ("late", 3)}, "killed", "hidden case 'drawn': off", False, 7),
        ({("late", 2)}, "some seeds", "hidden case 'late': off", False, 8),
        (set(), "survived", "", False, 11),
    ],
)
def test_what_kills_a_mutant_and_with_which_seeds(
    failing: set[tuple[str, int]], status: str, by: str, fixed: bool, asked: int
) -> None:
    verdict, fake = tried(failing)
    assert (verdict.status, verdict.by, verdict.fixed) == (status, by, fixed)
    # The first failing case is the last one of a round, and what a fixed case has killed needs no seed; what survives
    # is tried once more in the order of a real grade.
    assert len(fake.asked) == asked


class Timed(FakeGrader):
    """Takes as many seconds for a round as there are cases in it."""

    sandboxed = True

    def round_until_failure(self, task: Any, cells: Any, cases: list[Message], hidden: bool) -> TaskOutcome:
        return replace(super().round_until_failure(task, cells, cases, hidden), seconds=float(len(cases)))


def test_a_mutant_may_take_ten_times_as_long_as_the_longest_round_of_its_answer() -> None:
    trials = Trials.__new__(Trials)
    hidden = [[case("drawn", seed), case("fixed"), case("late", seed)] for seed in (1, 2, 3)]
    notebook = SimpleNamespace(cells=lambda task, source: [], answers=lambda task: {"reference": ""})
    trials._grader, trials._notebook = Timed(set()), notebook  # type: ignore[assignment]
    trials._allowed, trials._longest_round = {}, 0.0
    trials._cases = {TASK.name: parted([case("seen")], hidden)}
    trials.right(TASK, "reference")
    # All three hidden cases of a seed, in the order of a real grade, are the longest round; all together are eleven.
    assert trials._allowed[TASK.name, "reference"].seconds == 30.0 < TASK.seconds


class Remembering(FakeGrader):
    """Fails the fixed case where one drawn by certain seeds came before it, as what keeps something does."""

    def __init__(self, seeds: set[int]) -> None:
        super().__init__(set())
        self.seeds = seeds

    def round_until_failure(self, task: Any, cells: Any, cases: list[Message], hidden: bool) -> TaskOutcome:
        first = cases[0].header
        self.failing = (
            {("fixed", 0)} if first["name"] == "drawn" and first["parameters"]["number"] in self.seeds else set()
        )
        return super().round_until_failure(task, cells, cases, hidden)


@pytest.mark.parametrize(("seeds", "status"), [({1, 2, 3}, "killed"), ({1, 2}, "some seeds"), (set(), "survived")])
def test_the_order_of_a_real_grade_kills_too(seeds: set[int], status: str) -> None:
    trials = Trials.__new__(Trials)
    hidden = [[case("drawn", seed), case("fixed"), case("late", seed)] for seed in (1, 2, 3)]
    trials._longest_round = 0.0
    trials._grader = Remembering(seeds)  # type: ignore[assignment]
    trials._cases = {TASK.name: parted([case("seen")], hidden)}
    assert trials._tried(TASK, []).status == status


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    if bubblewrap() is None:
        pytest.skip("mutants are tried in bubblewrap only")
    notebook = AuthoredNotebook(COURSE, TASK.notebook)
    with Judge(LIMITS) as judge:
        judge.start()
        with Trials(notebook, judge, seeds_of(2)) as found:
            yield found


def test_right_answers_survive_and_wrong_ones_are_killed(trials: Trials) -> None:
    assert trials.right(TASK, "reference") > 0
    assert trials.right(TASK, "reference") == 0  # remembered
    wrong = (TASK.folder / "wrong" / "rounds_up.py").read_text()
    verdict = trials.mutant(TASK, "reference", wrong)
    assert verdict.status == "killed"
    assert "rounded up" in verdict.by or "case" in verdict.by
    right = (TASK.folder / "right" / "slides_the_window.py").read_text()
    assert trials.mutant(TASK, "reference", right).status == "survived"


HOSTILE = {
    "loops": "def conv_output_shape(*_):\n    while True:\n        pass",
    "loops when defined": "while True:\n    pass",
    "forks": "import os\ndef conv_output_shape(*_):\n    while True:\n        os.fork()",
    "fills memory": "def conv_output_shape(*_):\n    x = bytearray(1 << 26)\n    while True:\n        x += x",
    "ends": "import os\ndef conv_output_shape(*_):\n    os._exit(0)",
    "writes files": "def conv_output_shape(*_):\n    open('x', 'wb').write(bytes(1 << 31))",
    "writes outside": f"def conv_output_shape(*_):\n    open({str(COURSE.root / 'mutant')!r}, 'w')",
    "is no program": "def conv_output_shape(:",
    "defines nothing": "pass",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mutant_is_one_line_and_stops_nothing(trials: Trials, name: str) -> None:
    trials.right(TASK, "reference")
    allowed = trials._allowed[TASK.name, "reference"]
    assert allowed.seconds < TASK.seconds  # far below the minute that a learner's answer has
    trials._allowed[TASK.name, "reference"] = replace(TASK, seconds=2.0)
    verdict = trials.mutant(TASK, "reference", HOSTILE[name])
    trials._allowed[TASK.name, "reference"] = allowed
    assert (verdict.status, verdict.fixed) == ("killed", True)
    assert verdict.by
    assert not (COURSE.root / "mutant").exists()
    reference = trials._notebook.answers(TASK)["reference"]
    assert trials.mutant(TASK, "reference", reference).status == "survived"


def test_nothing_is_said_of_mutants_of_an_answer_that_is_not_right(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"broken": (TASK.folder / "wrong" / "rounds_up.py").read_text()}
    monkeypatch.setattr(trials._notebook, "answers", lambda task: wrong)
    with pytest.raises(NotPassedError, match="conv_output_shape: broken does not pass itself"):
        trials.mutant(TASK, "broken", wrong["broken"])
