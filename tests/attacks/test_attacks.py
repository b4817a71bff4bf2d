"""Every attack of the table, on warm workers: no points, nothing read or written outside, others graded, fair words."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import pytest
from attacks import ATTACKS, BUILD, CLOCK, ENGINES, FOLD, GRAPH, NUMBERS, TRIP, Attack, Kind
from classroom import ROOT, SMALL, need_bubblewrap

from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import find_task
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import Grader
from autograder.grading.judging import Judge

WORKERS = ((NUMBERS,), (GRAPH, BUILD), (CLOCK, TRIP, FOLD), (ENGINES,))
"""Tasks that share a grader: what one withholds the others do not need."""

SECRET = "what nobody inside may read"


def solution(task: Task) -> str:
    """The right answer."""
    source = read_source(Course(ROOT).solutions / UNITS[task.unit] / f"{task.notebook}.py")
    return next(cell.source for cell in source.cells if grade_id(cell) == task.answer_id)


SET_UP = {
    ENGINES: "import statistics\nfrom collections.abc import Callable\nfrom typing import Any",
    GRAPH: "import torch\nfrom torch import fx, nn\nfrom torch.fx.node import map_arg",
    BUILD: "import torch\nfrom torch import fx, nn",
    TRIP: "import torch\nfrom torch import nn",
    FOLD: "import torch\nfrom torch import fx, nn",
}
"""What a right answer needs of the cells before it."""


@dataclass(frozen=True)
class Outside:
    """What lies outside the sandbox, and must not be reached.

    Attributes:
        folder: a folder with one file, `secret`.
        port: on which somebody listens.
        name: of an abstract socket on which somebody listens.
    """

    folder: Path
    port: int
    name: str

    def untouched(self) -> bool:
        """Whether everything there is as it was."""
        secret = self.folder / "secret"
        listed = [path.name for path in self.folder.iterdir()] == ["secret"]
        return listed and secret.read_text() == SECRET and secret.stat().st_mode & 0o777 == 0o644


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o644)
    name = f"fxopt-attacks-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        yield Outside(folder, listener.getsockname()[1], name)


class Graders:
    """Warm graders by task, started when they are first needed, with one judge."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._judge = stack.enter_context(Judge(SMALL, sandboxed=True))
        self._graders: dict[tuple[str, ...], Grader] = {}

    def grade(self, task: Task, source: str) -> tuple[TaskOutcome, dict[str, list[dict[str, Any]]]]:
        names = next(names for names in WORKERS if task.name in names)
        if names not in self._graders:
            tasks = [find_task(name) for name in names]
            grader = Grader(tasks, "a seed for tests", sandboxed=True, limits=SMALL, judge=self._judge)
            self._graders[names] = self._stack.enter_context(grader)
        set_up = {"id": "set-up", "source": SET_UP.get(task.name, "")}
        return self._graders[names].grade(task, [set_up, {"id": task.answer_id, "source": source}])


@pytest.fixture(scope="module")
def graders() -> Iterator[Graders]:
    need_bubblewrap()
    with ExitStack() as stack:
        yield Graders(stack)


def tried(attack: Attack, graders: Graders, outside: Outside) -> list[str]:
    """What does not hold after an attack."""
    task = replace(find_task(attack.task), seconds=attack.seconds)
    places = {"{outside}": str(outside.folder), "{port}": str(outside.port), "{name}": outside.name}
    source = attack.source
    for place, value in places.items():
        source = source.replace(place, value)
    source = (
        source.replace("{{", "{").replace("}}", "}") if attack.kind in ("reading", "writing", "escaping") else source
    )
    outcome, outputs = graders.grade(task, f"{source}\n{solution(task)}" if attack.honest else source)
    said = json.dumps([outcome.to_json(), outputs], ensure_ascii=False)
    wrong = [f"{outcome.status}: {outcome.messages}"]
    if attack.honest and outcome.status != "passed":
        wrong.append("the honest part earned nothing")
    if not attack.honest and outcome.status == "passed":
        wrong.append("it passed")
    if attack.status and outcome.status not in attack.status:
        wrong.append(f"expected {attack.status}")
    if "GOT THROUGH" in said:
        wrong.append(f"it got through: {said[said.index('GOT THROUGH') :][:200]}")
    if SECRET in said:
        wrong.append("it read the secret")
    if not outside.untouched():
        wrong.append("it changed what lies outside")
    if attack.told not in " ".join(outcome.messages):
        wrong.append(f"not told {attack.told!r}")
    wrong += [f"unfair: {message!r}" for message in outcome.messages if not fair(message)]
    if not outcome.messages and outcome.status != "passed":
        wrong.append("nothing was said")
    return wrong if len(wrong) > 1 else []


def fair(message: str) -> bool:
    """Whether a message is one line, not too long, in words, and names no place of ours."""
    hidden = ("Traceback", "/view", "/tmp/fxopt", "autograder/", "\x1b")
    return "\n" not in message and 10 < len(message) < 700 and not any(mark in message for mark in hidden)


def next_is_graded(graders: Graders, task: Task) -> bool:
    """Whether a right answer, handed in by somebody else now, passes."""
    return graders.grade(task, solution(task))[0].status == "passed"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_attack_of_this_kind_gains_reaches_or_holds_up_anything(
    graders: Graders, outside: Outside, kind: Kind
) -> None:
    wanted = [attack for attack in ATTACKS if attack.kind == kind]
    failed: dict[str, list[str]] = {}
    for attack, following in zip_longest(wanted, wanted[1:]):
        wrong = tried(attack, graders, outside)
        # An attack that also solves its task shows by its points that what went before it holds nothing up.
        shown = following is not None and following.honest and following.task == attack.task
        if not shown and not next_is_graded(graders, find_task(attack.task)):
            wrong.append("the next one was not graded")
        if wrong:
            failed[attack.name] = wrong
    assert failed == {}, "\n".join(f"{name}: {wrong}" for name, wrong in failed.items())


def test_the_table_is_wide() -> None:
    counted = Counter(attack.kind for attack in ATTACKS)
    assert set(counted) == set(get_args(Kind))
    assert min(counted.values()) >= 20
    assert counted.total() >= 200
    assert len({(attack.kind, attack.name) for attack in ATTACKS}) == counted.total()


def test_what_a_cell_prints_when_it_gets_through_is_noticed(graders: Graders, outside: Outside) -> None:
    leaking = Attack("reading", "prints the mark", "print('GOT THROUGH')", honest=True)
    assert any("got through" in wrong for wrong in tried(leaking, graders, outside))
    passing = Attack("forging", "a right answer", solution(find_task(NUMBERS)))
    assert "it passed" in tried(passing, graders, outside)
    told = Attack("breaking", "a right answer with a secret", f"print({SECRET!r})", honest=True)
    assert "it read the secret" in tried(told, graders, outside)
