"""What raises for some values is known to: hostile values for PyTorch's own sample inputs of every operator."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from sample_inputs import sample_inputs
from torch import fx
from torch._ops import OpOverload
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from fxopt_core.graphs.effects import effects_of

SAMPLES = 1
INTEGERS = (0, -1, 10**4)
NUMBERS = (float("nan"), -1.0)
PROCESSES = 24
"""Operators are divided among so many processes, one after the other: a few crash on what they are given."""

LOOKED_THROUGH = 500
"""So many operators have to come to an end at least."""


class _Raised(TorchDispatchMode):
    """Notes the innermost operator that raised."""

    operator: OpOverload | None = None

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return function(*args, **(kwargs or {}))
        except Exception:
            self.operator = self.operator or function
            raise


def _filled(tensor: Any, number: Any) -> Any:
    """The tensor with every element replaced, if the number is of its kind."""
    if not isinstance(tensor, torch.Tensor) or tensor.dtype == torch.bool or tensor.layout != torch.strided:
        return tensor
    if (tensor.is_floating_point() or tensor.is_complex()) is not isinstance(number, float):
        return tensor
    if not tensor.is_contiguous() or (number == 10**4 and tensor.dtype == torch.uint8):
        return tensor
    return torch.full_like(tensor.detach(), number)


def _says_so(operator: OpOverload) -> bool:
    graph = fx.Graph()
    count = len(operator._schema.arguments)
    node = graph.call_function(operator, tuple(graph.placeholder(f"x{number}") for number in range(count)))
    effects = effects_of(node)
    # What draws or is unknown stays anyway.
    return effects.raises or effects.opaque or effects.random or bool(effects.writes)


def _look(call: Callable[[], Any]) -> str | None:
    """The operator that raises although nothing says so; an empty string if one raises of which it is said."""
    raised = _Raised()
    try:
        with raised:
            call()
    except Exception:
        if raised.operator is None:
            return None
        return "" if _says_so(raised.operator) else str(raised.operator)
    return None


def _of_one(op: Any) -> set[str]:
    found: set[str] = set()
    for dtype in {torch.float32, torch.int64} & set(op.dtypes):
        samples = [sample for sample, _ in zip(sample_inputs(op, dtype), range(SAMPLES), strict=False)]
        for sample in samples:
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            if _look(lambda: op.op(*args, **kwargs)) is not None:  # noqa: B023
                continue
            for number in (*INTEGERS, *NUMBERS):
                hostile, named = tree_map(lambda leaf: _filled(leaf, number), (args, kwargs))  # noqa: B023
                missed = _look(lambda: op.op(*hostile, **named))  # noqa: B023
                if missed is not None:
                    found.add(missed)
    return found


def _write_survey(folder: Path) -> None:
    """Write a file of JSON lines for each share of the operators: what raised unannounced, one line an operator."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for number in range(PROCESSES):
        child = os.fork()
        if not child:
            faulthandler.disable()
            with (folder / f"{number}.jsonl").open("w") as file:
                for op in op_db[number::PROCESSES]:
                    file.write(json.dumps(sorted(_of_one(op))) + "\n")
                    file.flush()
            os._exit(0)
        os.waitpid(child, 0)


@cache
def survey() -> tuple[int, set[str], int]:
    """How many operators came to an end, those that raise unannounced, and how many raised as it is said of them."""
    ended, missed, raised = 0, set[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: here, other tests may have started threads, whose locks a fork would keep for ever.
        subprocess.run([sys.executable, __file__, folder], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        for path in Path(folder).iterdir():
            for line in path.read_text().splitlines():
                names = set(json.loads(line))
                ended += 1
                raised += "" in names
                missed |= names - {""}
    return ended, missed, raised


SIZES_AND_STRIDES: frozenset[str] = frozenset()
"""What raises because the hostile copy has other strides than the sample, and not because of its values."""


def test_what_raises_for_some_values_says_so() -> None:
    _, missed, raised = survey()
    assert missed - SIZES_AND_STRIDES == set()
    assert raised > 25


def test_nearly_all_operators_were_tried() -> None:
    ended, _, _ = survey()
    assert ended > LOOKED_THROUGH


@pytest.mark.parametrize("operator", ["add.Tensor", "mm.default", "view.default", "softmax.int", "linalg_vector_norm"])
def test_what_cannot_fail_for_its_shapes_is_not_said_to(operator: str) -> None:
    name, _, overload = operator.partition(".")
    assert not _says_so(getattr(getattr(torch.ops.aten, name), overload or "default"))


if __name__ == "__main__":
    _write_survey(Path(sys.argv[1]))
