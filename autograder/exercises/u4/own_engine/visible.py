"""The learner's side: programs that autograd records, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge

from autograder.exchange.evidence import Case, Evidence

MOST_CALLS = 20_000
"""Calls of nodes that become evidence."""

REFUSED = "doesn't match the broadcast shape"
"""What a node says of a gradient that has not the shape of its tensor."""

Program = dict[str, Any]
"""What runs, and how often backward goes over it.

`leaves`: sizes, dtype and whether it asks for gradients. `steps`: names of `STEPS` with indices of values; each adds
its results to the values. `tensors`: indices of those at which backward begins. `times`: how often. `seed`: for the
numbers. `gradients`: the dtype of the gradients that backward is given; `None` is that of their tensors. `raises`:
whether a node raises an error. `records`: whether autograd records where backward is called. `again`: whether another
graph of the same leaves is run afterwards.
"""

STEPS: dict[str, Callable[..., Any]] = {
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "mm": lambda x, y: x @ y,
    "sum": lambda x: x.sum(),
    "total": lambda x: x.sum(0),
    "unbind": lambda x: x.unbind(0),
    "least and most": lambda x: x.aminmax(dim=0),
    "eigenvalues": lambda x: torch.linalg.eigh(x),
    "mean of a group": lambda x: torch.native_group_norm(x, None, None, 2, 3, 1, 1, 1e-5)[1],
    "stack": lambda *xs: torch.stack(xs),
    "cat": lambda *xs: torch.cat(xs),
    "turn": lambda x: x.t(),
    "overwrite": lambda x: x.mul_(2),
}
"""What a program is made of."""


def leaf(*sizes: int, dtype: str = "float64", asks: bool = True) -> list[Any]:
    """A leaf."""
    return [list(sizes), dtype, asks]


def program(leaves: list[Any], *steps: list[Any], tensors: list[int], **more: Any) -> Program:
    """A program; see `Program`."""
    usual = {"times": 1, "seed": 0, "gradients": None, "raises": False, "records": True}
    usual |= {"again": False}
    return {"leaves": leaves, "steps": list(steps), "tensors": tensors, **usual, **more}


def visible_cases() -> list[Case]:
    """A chain, a diamond, a node with several outputs, and leaves that were broadcast."""
    return [
        Case("a chain", program([leaf(2, 3)], ["sin", 0], ["tanh", 1], ["sum", 2], tensors=[3])),
        Case(
            "a diamond",
            program(
                [leaf(2, 3)],
                *(["sin", 0], ["cos", 0], ["tanh", 1], ["mul", 1, 2], ["add", 3, 4], ["mul", 5, 2]),
                tensors=[6],
                seed=1,
            ),
        ),
        Case(
            "several outputs",
            program([leaf(3, 2)], ["sin", 0], ["unbind", 1], ["mul", 2, 4], ["tanh", 2], tensors=[5, 6], seed=2),
        ),
        Case(
            "broadcast",
            program(
                [leaf(2, 3), leaf(3), leaf(2, 1, dtype="float32")],
                *(["add", 0, 1], ["sin", 3], ["add", 4, 2]),
                tensors=[5],
                seed=3,
            ),
        ),
    ]


def build(given: Program) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Run a program: its leaves, the tensors that backward begins at, and a gradient for each of them."""
    generator = torch.Generator().manual_seed(given["seed"])
    values: list[torch.Tensor] = []
    for sizes, dtype, asks in given["leaves"]:
        drawn = torch.randn(sizes, generator=generator, dtype=torch.float64).to(getattr(torch, dtype))
        values.append(drawn.requires_grad_(asks))
    leaves = list(values)
    for name, *indices in given["steps"]:
        found = STEPS[name](*(values[index] for index in indices))
        values += [found] if isinstance(found, torch.Tensor) else list(found)
    tensors = [values[index] for index in given["tensors"]]
    dtypes = [getattr(torch, given["gradients"]) if given["gradients"] else one.dtype for one in tensors]
    gradients = [
        torch.randn(one.shape, generator=generator, dtype=torch.float64).to(dtype)
        for one, dtype in zip(tensors, dtypes, strict=True)
    ]
    return leaves, tensors, gradients


def another_graph(leaves: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """A graph that shares nothing with a program's but its leaves: where backward begins, and the gradients."""
    tensors = [(one * 3).sin() for one in leaves if one.requires_grad]
    return tensors, [torch.ones_like(one) for one in tensors]


@contextmanager
def watched(leaves: list[torch.Tensor]) -> Iterator[list[int]]:
    """The numbers of the leaves whose `.grad` an `AccumulateGrad` fills meanwhile.

    PyTorch calls such a hook from within that node, whoever calls the node.
    """
    filled: list[int] = []

    def note(number: int) -> Callable[[torch.Tensor], None]:
        return lambda _: filled.append(number)

    handles = [
        leaf.register_post_accumulate_grad_hook(note(number))
        for number, leaf in enumerate(leaves)
        if leaf.requires_grad
    ]
    try:
        yield filled
    finally:
        for handle in handles:
            handle.remove()


def gradients_of(leaves: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradient of each leaf that has one."""
    return {f"leaf {number}": one.grad for number, one in enumerate(leaves) if one.grad is not None}


def reached(tensors: list[torch.Tensor]) -> list[Any]:
    """Every node of the graph behind some tensors, in an order that depends on the graph alone."""
    nodes: list[Any] = []
    seen: set[int] = set()
    waiting = [get_gradient_edge(one).node for one in tensors]
    for node in waiting:
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes.append(node)
        waiting += [following for following, _ in node.next_functions if following is not None]
    return nodes


def in_words(node: Any) -> str:
    """A node's name without its namespace."""
    return str(node.name()).rpartition("::")[2]


@contextmanager
def engine_off() -> Iterator[None]:
    """While active, PyTorch's engine refuses to run."""

    def refuses(*_: Any, **__: Any) -> Any:
        raise RuntimeError("PyTorch's own engine is switched off in this task: call the nodes yourself")

    places = [
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
        (torch.autograd, "_engine_run_backward"),
        (torch.autograd.graph, "_engine_run_backward"),
        (torch.autograd.Variable, "_execution_engine"),
    ]
    kept = [(place, name, getattr(place, name)) for place, name in places]
    for place, name in places:
        setattr(place, name, SimpleNamespace(run_backward=refuses) if name == "_execution_engine" else refuses)
    try:
        yield
    finally:
        for place, name, function in kept:
            setattr(place, name, function)


def probe(case: Case, run_backward: Any) -> Evidence:
    """Record a program, let the learner's engine walk its graph, and look at the leaves."""
    given = case.parameters
    leaves, tensors, gradients = build(given)
    nodes = reached(tensors)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    orders: list[list[int] | None] = []
    recording: list[bool] = []
    raised = False
    with engine_off(), watched(leaves) as filled:
        for _ in range(given["times"]):
            torch.set_grad_enabled(given["records"])
            try:
                found = run_backward(list(tensors), list(gradients))
            except RuntimeError as error:
                if REFUSED in str(error):
                    return Evidence({"refused": str(error)[:200]})
                if not given["raises"]:
                    raise
                raised, found = True, []
            finally:
                recording.append(torch.is_grad_enabled())
                torch.set_grad_enabled(True)
            known = isinstance(found, (list, tuple))
            orders.append([numbers.get(id(one), -1) for one in found[:MOST_CALLS]] if known else None)
    grads = gradients_of(leaves)
    recorded = [name for name, grad in grads.items() if grad.requires_grad]
    closed = [name for name, grad in grads.items() if grad.is_inference()]
    values = {"orders": orders, "recorded": recorded, "closed": closed, "recording": recording, "raised": raised}
    values |= {"filled": filled[:MOST_CALLS]}
    grads = {name: grad.detach().clone() for name, grad in grads.items()}
    if given["again"]:
        for one in leaves:
            one.grad = None
        others, of_others = another_graph(leaves)
        with engine_off():
            run_backward(others, of_others)
        grads |= {f"again, {name}": grad.detach().clone() for name, grad in gradients_of(leaves).items()}
    return Evidence(values, grads)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The nodes in the order in which they were called."""
    if "refused" in evidence.values:
        return [f"{case.name}: a node refused a gradient: {evidence.values['refused']}"]
    nodes = reached(build(case.parameters)[1])
    lines = [f"{case.name}: what your engine called"]
    for order in evidence.values["orders"]:
        if order is None:
            lines.append("  it returned no list of nodes")
            continue
        lines += [
            f"  {place:3}. {in_words(nodes[one])}" if 0 <= one < len(nodes) else f"  {place:3}. no node of this graph"
            for place, one in enumerate(order[:40], 1)
        ]
    return ["\n".join(lines)]
