"""Tools that are out of reach while graded: hollow copies, and what stands in for a package that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.tasks import all_tasks
from autograder.exchange.evidence import Case
from autograder.grading.hollow import hollow, write_hollow
from autograder.grading.view import build_view, foreign_modules
from autograder.learner_side import outside, stand_in
from autograder.learner_side.withheld import WithheldImportError

SOURCE = """
import math
TABLE = {}

def _checked(function):
    return _named(function)

def _named(function):
    TABLE[function.__name__] = function
    return function

@_checked
def area(r):
    return math.pi * r * r

def twice(x):
    return 2 * area(x)

async def later():
    return 1

class Counter:
    def __init__(self):
        self.count = 0
    def add(self):
        self.count += 1
    @property
    def now(self):
        return self.count
"""


def test_a_hollow_module_has_every_name_and_computes_nothing() -> None:
    names: dict[str, object] = {}
    exec(hollow(SOURCE, "", "write your own"), names)
    # The decorator ran while the module was imported, and so did what it calls.
    assert list(names["TABLE"]) == ["area"]  # type: ignore[call-overload]
    for name in ("area", "twice"):
        with pytest.raises(WithheldImportError, match="write your own"):
            names[name](1)  # type: ignore[operator]
    with pytest.raises(WithheldImportError):
        names["Counter"]()  # type: ignore[operator]
    with pytest.raises(WithheldImportError):
        names["TABLE"]["area"](2)  # type: ignore[index]
    with pytest.raises(WithheldImportError):
        names["later"]().send(None)  # type: ignore[operator]


def test_a_part_of_a_module_may_be_hollow() -> None:
    names: dict[str, object] = {}
    exec(hollow(SOURCE, "Counter.add", "write your own"), names)
    counter = names["Counter"]()  # type: ignore[operator]
    assert counter.now == 0
    assert names["twice"](0) == 0  # type: ignore[operator]
    with pytest.raises(WithheldImportError):
        counter.add()
    for absent in ("Counter.subtract", "nothing", "TABLE"):
        with pytest.raises(LookupError, match="correct the table"):
            hollow(SOURCE, absent, "")


def test_what_is_withheld_of_others_can_be_made_hollow(tmp_path: Path) -> None:
    names = foreign_modules(all_tasks())
    assert {"torch.nn.utils.fusion", "torch.fx.interpreter", "torch.utils.flop_counter"} <= names
    pairs = write_hollow(tmp_path, names)
    assert len({target for _, target in pairs}) == len(pairs)
    assert any(target.suffix == ".pyc" for _, target in pairs)
    for copy, target in pairs:
        # The compiled form lies beside the source, and would give it away.
        assert target.suffix != ".pyc" or copy.read_bytes() == b""
        assert target.is_file()
    with pytest.raises(LookupError, match="not installed"):
        write_hollow(tmp_path, ["torch.no_such_module"])


MENTIONS = """
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

class Net(nn.Module):
    def forward(self, x: torch.Tensor | None, *rest: Tensor) -> "torch.Tensor":
        return F.relu(x)

def later():
    with torch.no_grad():
        return torch.ones(2)

print("mentioned")
for use in (later, Net().forward, lambda *a: nn.Linear(3, 4), DataLoader):
    try:
        use(1)
    except ImportError as error:
        print("told" if "plain Python" in str(error) or "not there" in str(error) else error)
    except TypeError:
        try:
            use()
        except ImportError as error:
            print("told")
from autograder.learner_side.stand_in import calls_of
print(len(calls_of("torch")))
"""


def test_cells_that_mention_an_absent_package_run_and_calls_are_told(tmp_path: Path) -> None:
    build_view(tmp_path, [next(task for task in all_tasks() if task.without)])
    done = subprocess.run(
        [sys.executable, "-P", "-c", MENTIONS],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["mentioned", "told", "told", "told", "told", "4"], done.stderr


def test_where_the_package_is_there_nothing_stands_in() -> None:
    import torch

    assert stand_in.calls_of("torch") is None
    assert torch.ones(1).item() == 1


class Counting:
    """An instrument that counts."""

    def __init__(self) -> None:
        self.record: list[int] = []

    def answer(self, question: int) -> int:
        self.record.append(question)
        return len(self.record)


def test_in_a_check_the_instrument_is_held_here() -> None:
    ask, seen = outside.held(Counting)
    assert [ask(7), ask(8)] == [1, 2]
    assert seen == [7, 8]


def test_what_is_kept_travels_to_the_judge_only() -> None:
    case = Case("name", {"a": 1}, kept={"script": [1.5]})
    header, blob = case.to_message()
    assert Case.from_message(header, blob).kept == {"script": [1.5]}
    sent = {name: value for name, value in header.items() if name != "kept"}
    assert Case.from_message(sent, blob).kept == {}
