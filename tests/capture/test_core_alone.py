"""What `capture` does where nothing but `fxopt_core` is installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from capture_models import line_of

PROGRAM = """
import importlib.metadata, json, sys
importlib.metadata.entry_points = lambda **_: importlib.metadata.EntryPoints()
import torch
from torch import nn
from capture_models import ThreeBreaks
from fxopt_core.capture import capture, capture_methods
from fxopt_core.optimizer import GraphOptimizer

class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 5 else x - 1

x = torch.ones(2, 4)
dynamo = capture(ThreeBreaks().eval(), (x,))
linear = capture(nn.Linear(4, 2), (x,), "auto")
branch = capture(Branch(), (x,), "auto")
print(json.dumps({
    "methods": list(capture_methods()),
    "breaks": [(one.line, one.reason[:60], one.source) for one in dynamo.graph_breaks],
    "guards": [one.kind for one in dynamo.guards],
    "linear": [one.strategy for one in linear.attempts],
    "branch": [one.strategy for one in branch.attempts],
    "agrees": all(one.agrees or one.refusal for one in branch.agreements),
    "right": torch.equal(branch.run(2 * x), Branch()(2 * x)),
    "optimized": GraphOptimizer(nn.Linear(4, 2), (x,)).optimize().report.method,
    "strangers": [name for name in sys.modules if name.startswith(("fxopt_workbench", "autograder"))],
}))
"""


@pytest.fixture(scope="module")
def alone():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_has_the_methods_of_torch_2_and_nothing_of_the_workbench_is_imported(alone):
    assert alone["methods"] == ["auto", "dynamo", "export"]
    assert alone["strangers"] == []
    assert alone["optimized"] == "export"


def test_auto_is_export_then_dynamo(alone):
    assert alone["linear"] == ["export"]
    assert alone["branch"] == ["export", "dynamo, fullgraph", "dynamo, partitions"]
    assert alone["agrees"]
    assert alone["right"]


def test_breaks_and_guards_are_told_in_torchs_own_words(alone):
    assert list(dict.fromkeys(line for line, _, _ in alone["breaks"])) == [
        line_of(m) for m in ("PRINT", "ITEM", "BRANCH")
    ]
    assert alone["breaks"][-1][1].startswith("Data-dependent branching\n  Explanation: ")
    assert alone["breaks"][0][2] == 'print("halfway")  # PRINT'
    assert "TENSOR_MATCH" in alone["guards"]
