"""The short form of the operator fuzzer: that it finds what is there to find, and that nothing on the list crashes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autograder.exchange.graph_form.targets import functions, methods, operators
from autograder.exchange.graph_form.unchecked import (
    CAPTURED,
    CHECKED,
    CRASHING,
    KEPT,
    PRIVATE,
    RULES,
    why_operator_left_out,
)

FUZZER = Path(__file__).with_name("operator_fuzzer.py")


def fuzzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", str(FUZZER), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by Linux's mprotect")
def test_the_fuzzer_finds_what_crashes_and_little_else() -> None:
    found = fuzzed(
        "--seed", "1", "--calls", "40", "--sample", "60", "--also", "torch.ops.aten.segment_reduce.default",
        "--also", "torch.ops.aten.max_pool2d_with_indices_backward.default",
        "--also", "torch.ops.aten.lu_unpack.default",
    )  # fmt: skip
    crashed = set(re.findall(r"^SIG\w+ +(\S+?)\(", found.stdout, re.MULTILINE))
    assert found.returncode == 1, found.stdout + found.stderr
    assert "torch.ops.aten.segment_reduce.default" in crashed
    listed = {name for name in crashed if name.split(".")[3] not in (*CRASHING, "max_pool2d_with_indices_backward")}
    assert {name for name in listed if name.split(".")[3] not in KEPT} == set(), found.stdout


def test_what_crashes_is_on_no_list_in_any_form() -> None:
    for name in CRASHING:
        assert name not in methods()
        assert not [one for one in functions() if one.rpartition(".")[2] == name and one not in CHECKED]
        assert not [one for one in operators() if re.fullmatch(rf"\w+::{name}(_|\..*)?", one)]


def test_gradients_private_operators_and_results_handed_in_are_out_by_rule() -> None:
    names = {name.partition("::")[2] for name in operators() if name.startswith("aten::")}
    bases = {name.partition(".")[0].removesuffix("_") for name in names}
    assert {base for base in bases if "backward" in base} <= CAPTURED
    assert {base for base in bases if re.match("_[^_]", base)} <= CAPTURED
    assert "add.Tensor" in names
    assert "add.out" in names  # a program of the capstone is about it
    assert "mul.out" not in names
    for name, overload in (("mul", "out"), ("_foreach_mul", "List"), ("max_pool2d_with_indices_backward", "")):
        assert why_operator_left_out(name, overload)
    assert all(
        len(reason.split()) > 3 for reason in (*dict((*RULES, PRIVATE)).values(), *CRASHING.values(), *KEPT.values())
    )


def test_a_rule_holds_for_the_functions_of_torch_as_for_its_operators() -> None:
    names = {name.rpartition(".")[2] for name in functions()} | methods()
    assert [name for name in names - CAPTURED for pattern, _ in RULES if re.fullmatch(pattern, name)] == []
    # Public functions of torch that a rule is about: without it they would be on the list.
    assert {"batch_norm_update_stats", "batch_norm_backward_elemt"} <= set(dir(torch._C._VariableFunctions)) - names


def test_what_looks_at_its_arguments_may_be_called_and_is_there() -> None:
    assert set(functions()) >= CHECKED
    assert {name.rpartition(".")[2] for name in CHECKED} <= set(CRASHING)


def test_every_operator_that_is_named_exists() -> None:
    known = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    assert {name for name in CAPTURED | set(KEPT) if name not in known} == set()
