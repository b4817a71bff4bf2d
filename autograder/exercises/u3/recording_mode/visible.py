"""The learner's side: programs to record, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence

MOST_RECORDS, MOST_KEYS, LONGEST = 200, 12, 200
"""Records, key sets of a record and characters of a name that become evidence."""

Program = dict[str, Any]
"""`tensors`: kinds of tensors; `blocks`: how many recorders stand inside one another, and how often they are entered;
`steps`: names of `STEPS` with indices of values. Each step adds a value."""

KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.arange(6.0).view(2, 3),
    "grad": lambda: (torch.arange(6.0).view(2, 3) - 2).requires_grad_(),
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "sparse": lambda: torch.eye(3)[:2].to_sparse(),
    "inference": lambda: _inferred(),
    "parameter": lambda: torch.nn.Parameter(torch.arange(6.0).view(2, 3)),
    "rows": lambda: torch.tensor([1, 0]),
}


def _inferred() -> torch.Tensor:
    with torch.inference_mode():
        return torch.full((2, 3), 2.0)


def _backward(x: torch.Tensor) -> torch.Tensor:
    x.sum().backward()
    return x.detach()


def _out(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mul(x.detach(), y.detach(), out=torch.empty(2, 3))


def _out_as_a_list(x: torch.Tensor) -> torch.Tensor:
    rows = [torch.empty(1, 3), torch.empty(1, 3)]
    torch.split_copy(x.detach(), 1, out=rows)
    return rows[1]


def _out_by_other_names(x: torch.Tensor) -> torch.Tensor:
    sorted_values = torch.empty(2, 3)
    torch.sort(x.detach(), 1, descending=True, out=(sorted_values, torch.empty(2, 3, dtype=torch.int64)))
    return sorted_values


def _through_a_view(x: torch.Tensor) -> torch.Tensor:
    x.view(3, 2)[1] = 5.0
    return x


FAILS = "does not fit"
"""The step that raises."""

ENDS = "ends the block"
"""The step that raises, and whose error nobody catches within the block."""

STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add twice": lambda x, y: torch.add(x, y, alpha=2),
    "relu": torch.relu,
    "linear": lambda x, y: functional.linear(x, y),
    "cat": lambda *xs: torch.cat(xs),
    "stack": lambda *xs: torch.stack(xs, 1),
    "pick": lambda x, rows: x[:, rows],
    "where": lambda x, y: torch.where(x > 1, x, y),
    "zeros": lambda: torch.zeros(2, 3),
    "view": lambda x: x.view(3, 2).t(),
    "through a view": lambda x: _through_a_view(x.detach().clone()),
    "add_": lambda x, y: x.detach().clone().add_(y),
    "out": _out,
    "out as a list": _out_as_a_list,
    # Two keyword arguments, `values` and `indices`.
    "out by other names": _out_by_other_names,
    # A keyword argument that is read, and not written to.
    "weighted": lambda x, y: torch.histogram(x.detach(), 3, range=(-3.0, 6.0), weight=y.detach())[0],
    "dropout": lambda x: functional.dropout(x, 0.5, training=False),
    "layer_norm": lambda x: functional.layer_norm(x, (3,)),
    "like": lambda x: torch.full_like(x, 7.0),
    # An operator of PyTorch's that is not in the namespace aten.
    "packed": lambda x: torch.ops.quantized.embedding_bag_byte_prepack(x),
    "backward": _backward,
    FAILS: lambda x, y: x @ y,
    ENDS: lambda x, y: x @ y,
}
"""Whose names a program has."""


def program(tensors: str, *steps: list[Any], nested: int = 1, times: int = 1) -> Program:
    """A program over tensors of these kinds (one word each)."""
    return {"tensors": tensors.split(), "steps": list(steps), "nested": nested, "times": times}


def visible_cases() -> list[Case]:
    """Ordinary operators, one that is composite, a list of tensors, and a backward pass."""
    return [
        Case(
            "a few operators",
            {"programs": [program("plain plain", ["add twice", 0, 1], ["relu", 2], ["view", 3], ["zeros"])]},
        ),
        Case("composite", {"programs": [program("plain plain", ["linear", 0, 1], ["dropout", 0])]}),
        Case("a list of tensors", {"programs": [program("plain grad", ["cat", 0, 1, 0])]}),
        Case("gradients", {"programs": [program("grad plain", ["add", 0, 1], ["relu", 2], ["backward", 3])]}),
    ]


def run(given: Program, make: Callable[[], Any], read: Callable[[Any], Any]) -> dict[str, Any]:
    """Run a program under recorders.

    Args:
        given: the program.
        make: makes a recorder.
        read: what a recorder wrote down, as JSON.
    """
    recorders = [make() for _ in range(given["nested"])]
    values: list[Any] = []
    for _ in range(given["times"]):
        values = [KINDS[kind]() for kind in given["tensors"]]
        try:
            with ExitStack() as stack:
                for recorder in recorders:
                    stack.enter_context(recorder)
                for name, *indices in given["steps"]:
                    inputs = [values[index] for index in indices]
                    values.append(
                        _step(name, inputs) if all(isinstance(one, torch.Tensor) for one in inputs) else "skipped"
                    )
        except RuntimeError as error:
            if given["steps"][len(values) - len(given["tensors"])][0] != ENDS:
                raise
            values.append(f"the block ended: {str(error)[:LONGEST]}")
        # Outside the block nothing is recorded.
        torch.ones(1).add(1)
    return {"records": [read(recorder) for recorder in recorders], "values": [_as_json(value) for value in values]}


def _step(name: str, inputs: list[torch.Tensor]) -> Any:
    if name != FAILS:
        return STEPS[name](*inputs)
    try:
        return STEPS[name](*inputs)
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):
            raise
        return str(error)[:LONGEST]


def _as_json(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value if isinstance(value, str) else type(value).__name__
    if value.device.type == "meta":
        return ["meta", list(value.shape)]
    return [type(value).__name__, value.detach().to_dense().tolist() if value.is_sparse else value.tolist()]


def probe(case: Case, recorder: Any) -> Evidence:
    """Run each program under recorders of the learner's."""
    runs = [
        run(given, recorder, lambda one: _records(getattr(one, "records", None)))
        for given in case.parameters["programs"]
    ]
    return Evidence({"runs": runs})


def _records(found: Any) -> list[Any] | None:
    if not isinstance(found, (list, tuple)):
        return None
    return [_record(one) for one in found[:MOST_RECORDS]]


def _record(found: Any) -> list[Any] | None:
    match found:
        case [str(name), [*keys]] if all(isinstance(one, str) for one in keys):
            return [name[:LONGEST], [one[:LONGEST] for one in keys[:MOST_KEYS]]]
    return None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each program with what was written down."""
    lines = [f"{case.name}: what your mode wrote down"]
    for found in evidence.values["runs"]:
        for records in found["records"]:
            lines += _in_words(records) if records is not None else ["  no list of records"]
    return ["\n".join(lines)]


def _in_words(records: Iterable[Any]) -> list[str]:
    if not records:
        return ["  nothing"]
    return [f"  {one[0]}: {'; '.join(one[1]) or 'no tensor'}" if one else "  not a pair" for one in records]
