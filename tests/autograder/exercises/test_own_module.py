"""What the gate does not show of own_module's judge: PyTorch agrees with the rules, and each mistake shows."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.own_module import judge as judging
from autograder.exercises.u1.own_module.cases import random_program
from autograder.exercises.u1.own_module.model import FLAWS, framework
from autograder.exercises.u1.own_module.visible import Framework, probe, run, visible_cases

FIXED = [case for case in judging.hidden_cases(Random(0)) if not case.name.startswith("random")]


def evidence(case: Case, given: Framework) -> Evidence:
    return Evidence({"runs": [run(steps, given) for steps in case.parameters["programs"]], "torch_calls": []})


def test_the_model_that_names_mistakes_makes_none_by_itself() -> None:
    drawn = [case for seed in range(4) for case in judging.hidden_cases(Random(seed))]
    for case in [*visible_cases(), *drawn]:
        assert list(judging.judge(case, evidence(case, framework()))) == []


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_shows_in_a_fixed_case_and_is_named(flaw: str) -> None:
    called = judging.CALLED.get(flaw, flaw)
    assert any(name == called for case in FIXED for name, _ in judging.judge(case, evidence(case, framework(flaw))))


def test_drawn_programs_do_everything_and_are_refused_now_and_then() -> None:
    """Each kind of step is done and, but for what cannot be refused, refused; states are loaded and do not fit."""
    random = Random(0)
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    shared = 0
    for _ in range(80):
        steps = random_program(random, judging.PYTORCH)
        for step, seen in zip(steps, run(steps, judging.PYTORCH), strict=True):
            (refused if "error" in seen else done)[step[0]] += 1
            shared += len(seen["state"]) > len(seen["parameters"]) + len(seen["buffers"])
    assert all(done[kind] > 5 for kind in ("set", "del", "buffer", "parameter", "train", "eval", "apply", "load"))
    assert all(refused[kind] > 5 for kind in ("set", "del", "buffer", "parameter", "load"))
    assert shared > 20


def test_pytorch_loads_what_fits_before_it_complains() -> None:
    """Written down by hand, independently of what the judge runs."""
    steps = visible_cases()[-1].parameters["programs"][0]
    *_, strictly = run(steps, judging.PYTORCH)
    assert strictly["error"] == "RuntimeError"
    assert strictly["named"] == ["block.b", "block.w", "mean"]
    assert strictly["state"] == [["w", "P1", [0, 0]], ["mean", "T0", [3]], ["block.w", "P2", [4, 5, 6]]]


def test_a_module_built_on_pytorchs_is_told_where_pytorch_is_there() -> None:
    class Inherits(torch.nn.Module):
        pass

    case = visible_cases()[0]
    found = probe(case, Inherits, lambda values: torch.nn.Parameter(torch.tensor(values, dtype=torch.float64)), list)
    assert found.values["torch_calls"][:1] == ["Module"]


def test_evidence_of_another_length_does_not_pass() -> None:
    case = visible_cases()[0]
    with pytest.raises(ValueError, match="zip"):
        list(judging.judge(case, Evidence({"runs": [], "torch_calls": []})))
    short = evidence(case, framework())
    short.values["runs"][0].pop()
    with pytest.raises(ValueError, match="zip"):
        list(judging.judge(case, short))
