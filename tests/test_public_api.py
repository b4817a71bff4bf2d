"""What `import fxopt_core` offers: four names, loaded when they are asked for, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fxopt_core

USES = """
import inspect
import torch
from fxopt_core import GraphOptimizer, OptimizationPass, capture, register_pass
from fxopt_core import capture as again
assert capture is again
captured = capture(torch.nn.Linear(2, 2), (torch.ones(1, 2),), "export")
assert len(captured.graphs) == 1
assert list(inspect.signature(capture).parameters)[:2] == ["model", "example_inputs"], inspect.signature(capture)
assert issubclass(OptimizationPass, object) and callable(register_pass)
assert GraphOptimizer.__module__.startswith("fxopt_core.optimizer")
"""


@pytest.mark.parametrize(
    "before",
    ["", "import fxopt_core.capture", "from fxopt_core.capture import capture, capture_methods", "import autograder"],
)
def test_the_four_names_work_whatever_was_imported_before(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", before + USES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys, fxopt_core; print([name for name in sys.modules if name == 'torch' or 'fxopt_core.' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_another_name_is_an_attribute_error() -> None:
    assert set(fxopt_core.__all__) == {"GraphOptimizer", "OptimizationPass", "capture", "register_pass"}
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        _ = fxopt_core.optimise
