"""Submissions that try to carry a hidden case out: nothing of it reaches what anybody reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from classroom import SMALL, TASK, Classroom, cell, need_bubblewrap, when_called

from autograder.course.judges import hidden_cases, visible_cases
from autograder.course.sources import read_source
from autograder.course.task import UNITS
from autograder.course.tasks import find_task
from autograder.grading.endings import FAILED_HIDDEN, HIDDEN_FAILED
from autograder.grading.grading import Grader, grade_notebook

SEED = "a seed for tests"

SECRETS = [str(case.parameters["seed"]) for case in hidden_cases(TASK, SEED)]
"""A number of nine or ten digits from each hidden case."""

STEAL = """
import sys
frame = sys._getframe()
while not hasattr(frame.f_locals.get("case"), "parameters"):
    frame = frame.f_back
case = frame.f_locals["case"]
text = repr(case.parameters)
if case.name.startswith("hidden"):
    with open({witness!r}, "a") as witness:
        witness.write(text)
{deed}
"""

SEND = """
import gc
from autograder.exchange.channel import Channel
channel = next(item for item in gc.get_objects() if type(item) is Channel and item._socket.fileno() > 0)
"""

DEEDS = {
    "prints it": "import os; print(text); print(text, file=sys.stderr); os.write(2, text.encode())",
    "displays it": "from IPython.display import display; display(text)",
    "warns of it": "import warnings; warnings.warn(text)",
    "raises it": "raise RuntimeError(text)",
    "names an exception after it": "raise type(text, (Exception,), {})()",
    "names a built-in exception after it": "raise type(text, (Exception,), {'__module__': 'builtins'})()",
    "says that it is a withheld module": (
        "from autograder.learner_side.withheld import WithheldImportError; raise WithheldImportError(text)"
    ),
    "says that it is not implemented": "raise NotImplementedError(text)",
    "reports it as the name of an exception": SEND + "channel.send({'raised': text, 'text': text})",
    "reports it as evidence": SEND + "channel.send({'values': {'recorded': text, text: 0}, 'graphs': {text: {}}})",
    "reports it as a malformed graph": (
        SEND + "values = {'returned_callable': [], 'in_a_fresh_recorder': 0, 'recorded': 1, 'kinds': [text]}\n"
        "channel.send({'values': values, 'graphs': {'graph0': {'format': text}}})"
    ),
    "records a graph that is named after it": "graph_module.text = text; type(graph_module).__name__ = text",
    "records something of its name": "self.graphs.append(type(text, (), {})())",
    "ends with it": "sys.exit(text)",
}


WAYS_TO_FAIL = {
    "raises one kind": "raise ValueError",
    "raises another kind": "raise KeyError",
    "raises what imports raise": (
        "from autograder.learner_side.withheld import WithheldImportError\n"
        "raise WithheldImportError('`fxopt_core.capture`')"
    ),
    "raises what stubs raise": "raise NotImplementedError",
    "ends its process": "os._exit(0)",
    "crashes": "os.abort()",
    "sleeps": "time.sleep(60)",
    "takes all memory": "hog = [bytearray(b'x') * (1 << 24) for _ in range(200)]",
    "starts too many processes": (
        "for _ in range(40):\n    if os.fork() == 0: time.sleep(9) or os._exit(0)\ntime.sleep(9)"
    ),
    "says what is no message": SEND + "channel._socket.sendall(b'\\xff' * 99); time.sleep(9)",
    "gives what is no evidence": SEND + "channel.send({'values': 5})",
    "leaves a note for the cells that run next": "open('/tmp/note', 'w').write('1'); raise ValueError",
}
"""Deeds in the function that the probe calls. A learner's code could choose one by the bits of a hidden input."""

ONE_OF_MANY = """
import os
if os.path.exists("/tmp/note"):
    os._exit(0)
"""
"""A cell of one's own, of which there could be many: which of them ends the process would tell something."""


NUMBERS = find_task("conv_output_shape")
"""A task that is graded without torch, so that its processes are small and quick."""

WHERE_HIDDEN = """
import os, sys, time
right = conv_output_shape
def conv_output_shape(*arguments):
    frame = sys._getframe()
    while frame.f_code.co_name != "probe": frame = frame.f_back
    if frame.f_locals["case"].name.startswith("hidden"):
{deed}
    return right(*arguments)
"""


@pytest.fixture(scope="module")
def numbers() -> Iterator[Grader]:
    need_bubblewrap()
    with Grader([NUMBERS], SEED, sandboxed=True, limits=SMALL) as grader:
        yield grader


def test_how_an_answer_fails_on_hidden_cases_tells_nothing(numbers: Grader, room: Classroom) -> None:
    source = read_source(room.course.solutions / UNITS[NUMBERS.unit] / f"{NUMBERS.notebook}.py")
    right = cell(source, NUMBERS.answer_id).source
    patient, task = replace(NUMBERS, seconds=60.0), replace(NUMBERS, seconds=3.0)
    told = {}
    for name, deed in WAYS_TO_FAIL.items():
        answer = f"{right}\n{WHERE_HIDDEN.format(deed=indent(deed, ' ' * 8))}"
        cells = [{"id": "own", "source": ONE_OF_MANY}, {"id": NUMBERS.answer_id, "source": answer}]
        stuck: set[str] = set()
        with numbers.submission():
            first, _ = numbers.first_round(patient, cells, stuck)
            assert first.status == "passed", (name, first.messages)
            for again in range(1 + ("note" in deed)):
                outcome = numbers.second_round(task, cells, stuck, replace(first))
                told[name, again] = outcome.to_json()
        assert not stuck
    assert len(told) == len(WAYS_TO_FAIL) + 1
    for name, values in told.items():
        assert (values["messages"], values["misconceptions"]) == ([HIDDEN_FAILED], [FAILED_HIDDEN]), name
        assert (values["status"], values["points"]) == ("wrong", 0.0), name
        assert values["seconds"] <= patient.seconds, name


def test_of_several_mistakes_on_hidden_cases_one_is_told(plain: Grader, room: Classroom) -> None:
    deed = "    if case.name == 'hidden straight': return graph_module.forward\n    return 5"
    outcome, _ = plain.grade(
        replace(TASK, seconds=60.0), room.cells(when_called(STEAL.format(witness="/dev/null", deed=deed)))
    )
    found = {finding.misconception for case in outcome.cases for finding in case.findings}
    assert len(found) == 2
    assert len(outcome.messages) == len(outcome.misconceptions) == 1


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


@pytest.mark.parametrize("name", DEEDS)
def test_nothing_of_a_hidden_case_comes_out(plain: Grader, room: Classroom, tmp_path: Path, name: str) -> None:
    witness = tmp_path / "witness"
    source = when_called(STEAL.format(witness=str(witness), deed=indented(DEEDS[name])))
    outcome, outputs = plain.grade(TASK, room.cells(source))
    stolen = witness.read_text()
    # It was really stolen, and on visible cases the answer was right.
    assert SECRETS[0] in stolen
    assert not any(case.findings for case in outcome.cases if not case.hidden)
    shown = json.dumps([outcome.to_json(), outputs])
    for secret in SECRETS:
        assert secret not in shown
    assert all("{" not in message for message in outcome.messages)


def test_the_same_deeds_on_a_visible_case_are_shown(plain: Grader, room: Classroom, tmp_path: Path) -> None:
    # What is withheld above is told where it helps: the learner sees the text of an exception of a visible case.
    outcome, _ = plain.grade(TASK, room.cells(when_called("raise RuntimeError('the sum of 1234 and 4321')")))
    assert "the sum of 1234 and 4321" in outcome.messages[0]


LATER = """
import os
for folder in ("/tmp", os.environ["HOME"]):
    path = os.path.join(folder, "stolen")
    print("looked for what was stolen")
    if os.path.exists(path):
        print(open(path).read())
        raise RuntimeError(open(path).read())
"""


def steal_to_a_file(witness: str) -> str:
    body = "    import os\n    open(os.path.join(os.environ['HOME'], 'stolen'), 'w').write(text)"
    return when_called(STEAL.format(witness=witness, deed=body))


@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_one_task_hides_in_a_file_no_other_task_can_show(room: Classroom, tmp_path: Path, sandboxed: bool) -> None:
    if sandboxed:
        need_bubblewrap()
    witness = tmp_path / "witness"
    source = steal_to_a_file("/tmp/witness" if sandboxed else str(witness))
    notebook = room.answered(f"{LATER}\n{source}")
    # Twice the same task stands for two tasks of one notebook: the second runs the cells of the first again.
    outcome = grade_notebook(TASK.notebook, notebook, room.released, (TASK, TASK), SEED, sandboxed=sandboxed)
    shown = json.dumps([outcome.to_json(), outcome.outputs])
    assert "looked for what was stolen" in shown
    assert sandboxed or SECRETS[0] in witness.read_text()
    for secret in SECRETS:
        assert secret not in shown
    # The file was found when the cells ran for the last time, and cost the points.
    assert outcome.tasks[1].status == "wrong"
    assert outcome.tasks[1].misconceptions == [FAILED_HIDDEN]


def test_hidden_cases_come_from_the_seed() -> None:
    def drawn(seed: str) -> list[dict[str, Any]]:
        return [case.parameters for case in hidden_cases(TASK, seed)]

    assert drawn("one") == drawn("one")
    assert drawn("one") != drawn("two")
    assert len(drawn("one")) >= 2


def test_an_answer_that_knows_the_visible_cases_by_heart_fails(plain: Grader, room: Classroom) -> None:
    names = {case.name for case in visible_cases(TASK)}
    deed = f"    if case.name not in {names}: return graph_module.forward"
    source = when_called(STEAL.format(witness="/dev/null", deed=deed))
    outcome, _ = plain.grade(replace(TASK, seconds=60.0), room.cells(source))
    assert outcome.status == "wrong"
    assert [case.passed for case in outcome.cases if not case.hidden] == [True] * len(names)
    assert any(message.endswith("(found on a hidden case)") for message in outcome.messages)
