"""References of day 2 beside an independent second solution: that of the judge, on generated programs.

`FXOPT_COMPOSED=2000` tries as many programs of each task, `make test-long` 100.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from exercises.test_every_judge import reference_answers

from autograder.course.judges import judge_module
from autograder.course.tasks import find_task
from autograder.exchange.evidence import Evidence
from autograder.exchange.verdict import Agreement

LONG = "FXOPT_LONG" in os.environ
PROGRAMS = int(os.environ.get("FXOPT_COMPOSED", "100" if LONG else "20"))

pytestmark = pytest.mark.sampled

GENERATED = (
    "walk_graph", "replace_relu", "remove_dead_code", "merge_duplicates", "fold_constants", "fold_batchnorm",
    "write_a_pass", "fuse_linear_relu", "recompute",
)  # fmt: skip
"""Tasks of which programs are generated: all of the day."""


@pytest.mark.parametrize("name", GENERATED)
def test_a_right_answer_agrees_with_the_judge_on_composed_programs(name: str) -> None:
    task = find_task(name)
    judge, answers = judge_module(task), reference_answers(task)
    probe = __import__(task.module + ".visible", fromlist=["probe"]).probe
    for seed in range(PROGRAMS):
        case = judge.composed(Random(seed))
        evidence = Evidence.from_message(*probe(case, *answers).to_message())
        told = [item for item in judge.judge(case, evidence) if not isinstance(item, Agreement)]
        assert told == [], f"{told}\n{case.parameters['body']}"
