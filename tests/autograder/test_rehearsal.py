"""The rehearsal before the first fork: it imports what is there, and a learner's code sees nothing of it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from autograder.course.course import Course
from autograder.course.notebooks import cells_before_check
from autograder.course.reading import read_notebook
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, capstone_tasks, find_task
from autograder.grading.view import build_view
from autograder.learner_side.rehearsal import COURSE

CURRICULUM = Course(Path(__file__).resolve().parents[2]).curriculum

TOOLS = ("learner_side.check", "learner_side.submit_cell", "learner_side.own_functions")
"""What the first cell of a notebook may ask for."""

COMPILING = re.compile(
    r"torch\.compile|torch\.export|torch\._dynamo|fxopt_core\.(capture|optimizer|passes|verification|backend)"
)
"""Names without which nobody gets into PyTorch's compiler."""

WITHOUT_COMPILER = """
import sys
from autograder.course.tasks import find_task
from autograder.learner_side import rehearsal
rehearsal.tasks_in_view = lambda: [find_task("conv_output_shape"), find_task("strided_tensor")]
rehearsal.rehearse()
assert {f"autograder.{name}" for name in READY} <= set(sys.modules)
print("torch._dynamo" in sys.modules)
"""

WITHOUT_TORCH = """
from autograder.learner_side.warm import warm_up
warm_up(["torch"])
assert {f"autograder.{name}" for name in READY} <= set(sys.modules)
print(sys.modules["torch"].__file__.startswith(sys.path[0]))
"""

RUNNERS = """
import sys
from torch import nn, ones
from torch.fx import symbolic_trace
from autograder.exchange.evidence import pack_tensors, unpack_tensors
from autograder.exchange.graph_form import decode, encode
from autograder.grading.graph_server import warm_up
warm_up(["autograder.exchange.graph_form.questions"])
before = set(sys.modules)
from autograder.exchange.graph_form.questions import session
graph = decode(encode(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Dropout()))))
seen = session(graph, [[ones(3, 2)]], [ones(3, 2)])
assert set(seen["gradients"]["gradients"]) == {"input 0", "0.weight", "0.bias"}
unpack_tensors(pack_tensors({"found": seen["calls"][0]["outputs"][0]}))
print(sorted(set(sys.modules) - before))
"""

WHAT_IS_IN_VIEW = """
from autograder.learner_side import rehearsal
print(rehearsal.__file__.startswith(sys.path[0]), [(task.name, task.compiles) for task in rehearsal.tasks_in_view()])
"""

AFTERWARDS = """
import sys
import torch
before = torch.random.get_rng_state()
from autograder.learner_side.rehearsal import rehearse
rehearse()
from torch._dynamo.utils import counters
assert torch.equal(before, torch.random.get_rng_state()), "random numbers were drawn"
assert not counters, counters
assert not torch._dynamo.eval_frame.cached_backends, "a backend is remembered"
assert "autograder.exercises.day1.record_graphs.visible" in sys.modules
assert "torch._functorch.aot_autograd" in sys.modules
from autograder.exercises.day4 import blocks
assert blocks._exported.cache_info().currsize >= 15, "models of visible cases are not exported ahead"
seen = []
def backend(graph, inputs):
    seen.append(graph)
    return graph.forward
torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
assert len(seen) == 1
print("as if nothing had been")
"""


@pytest.mark.parametrize("name", COURSE)
def test_what_is_imported_ahead_exists(name: str) -> None:
    assert find_spec(name) is not None


def test_nothing_of_it_is_seen_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, check=False)
    assert done.stdout == "as if nothing had been\n", done.stderr[-2000:]


def test_the_compiler_is_taken_into_use_for_tasks_that_compile_only() -> None:
    ready = ("exercises.u2.strided_tensor.visible", *TOOLS)
    program = f"READY = {ready}\n{WITHOUT_COMPILER}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr[-2000:]


def test_where_there_is_no_torch_tools_and_probes_are_imported_ahead_too(tmp_path: Path) -> None:
    task = find_task("conv_output_shape")
    assert "torch" in task.without
    build_view(tmp_path, [task])
    ready = ("exercises.day0.conv_output_shape.visible", *TOOLS)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); READY = {ready}\n{WITHOUT_TORCH}"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr[-2000:]


def test_a_runner_of_graphs_imports_nothing_anew_for_gradients_draws_and_tensors() -> None:
    done = subprocess.run([sys.executable, "-c", RUNNERS], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr[-2000:]


@pytest.mark.parametrize(
    "task", [find_task("conv_output_shape"), *capstone_tasks().values()], ids=lambda task: task.name
)
def test_a_worker_finds_the_tasks_of_its_view(task: Task, tmp_path: Path) -> None:
    build_view(tmp_path, [task])
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WHAT_IS_IN_VIEW}"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == f"True {[(task.name, task.compiles)]}\n", done.stderr[-2000:]


@pytest.mark.parametrize("task", [task for task in all_tasks() if not task.compiles], ids=lambda task: task.name)
def test_a_task_that_names_the_compiler_says_so(task: Task) -> None:
    notebook = read_notebook(CURRICULUM / UNITS[task.unit] / f"{task.notebook}.ipynb")
    sources = [cell["source"] for cell in cells_before_check(notebook, task)]
    sources += [path.read_text() for path in (task.folder / "visible.py", *(task.folder / "right").glob("*.py"))]
    named = {found[0] for source in sources for found in COMPILING.finditer(source)}
    assert not named or "torch._dynamo" in task.imports, f"{task.name} wants `compiles=True`: {named}"
