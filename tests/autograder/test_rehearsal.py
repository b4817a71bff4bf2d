"""The rehearsal before the first fork: it imports what is there, and a learner's code sees nothing of it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from autograder.learner_side.rehearsal import COURSE

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
