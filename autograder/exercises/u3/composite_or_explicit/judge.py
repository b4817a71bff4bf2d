"""What both operators compute: from the formula, by PyTorch's own derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.u3.composite_or_explicit.visible import OPERATORS, derivatives, inputs, made

MISCONCEPTIONS = {
    "wrong values": "The operator does not compute `x * sigmoid(slope * x)`.",
    "other schema": (
        "The schema is another one. Others call the operator as it says, by the names of its arguments: define "
        "`(Tensor x, float slope) -> Tensor`."
    ),
    "other dtype": "The numbers are right, and they have another dtype than `x`: the result has the dtype of `x`.",
    "not a number": (
        "For large numbers something comes out that is no finite number: `exp` went beyond what its dtype can hold. "
        "`torch.sigmoid` does not."
    ),
    "single precision": (
        "The result of double precision, or its derivative, has the digits of single precision: something in between "
        "was computed in it. Calculate in the dtype of `x`, and keep the slope as the Python number that it is."
    ),
    "input overwritten": (
        "There is no value, or the kernel has overwritten its input: the schema promises that `x` stays as it is. "
        "Compute something new from it."
    ),
    "no derivative": "There is no gradient. Autograd must be able to follow the operator, or have a formula for it.",
    "no formula": (
        "`whole` has nothing for the key Autograd. That a gradient comes out is luck: autograd passed by and recorded "
        "the operators inside your kernel. In C++, or in a graph, there is nothing to record. Register a formula with "
        "`torch.library.register_autograd`."
    ),
    "gradient not weighted": (
        "Your formula leaves out the gradient that comes in. Multiply by it: it says how much the loss changes with "
        "the result."
    ),
    "wrong derivative": (
        "The gradient is wrong. With s = sigmoid(slope x), the derivative of x s is s (1 + slope x (1 - s))."
    ),
    "context of another call": (
        "There was another call before the backward pass, and your formula took the slope or the tensor of that one. "
        "Each call has a context of its own: keep the slope on `ctx`, and `x` by `ctx.save_for_backward`."
    ),
    "incoming gradient overwritten": (
        "Your formula writes into the gradient that comes in. Others may hold it, such as both operands of a sum: "
        "compute something new from it."
    ),
    "wrong second derivative": (
        "The gradient is right, and its derivative is wrong. Autograd follows the backward formula only from what it "
        "was given: save `x` itself, and compute the rest from it in the formula. What was computed beforehand counts "
        "as a constant, and so does what the formula detaches, or computes under `no_grad`."
    ),
    "incoming gradient cut off": (
        "For one operator alone all is right. Where another one follows, the gradient that comes in depends on `x` as "
        "well, and your formula takes it for a constant: calculate with the gradient as it is."
    ),
    "no meta": (
        "Without data the operator does not run. Tensors on meta, and the compiler's fake ones, need a kernel as well: "
        "`CompositeExplicitAutograd` serves every backend, or `torch.library.register_fake` says what comes out."
    ),
    "other shape on meta": (
        "On meta another shape or dtype comes out than on the CPU. A compiler believes the fake kernel, and "
        "everything after it goes wrong."
    ),
    "input handed back on meta": (
        "On meta your kernel hands back its input. The schema promises a new tensor, and a compiler that believes it "
        "takes one for the other: return `torch.empty_like(x)`."
    ),
    "open is opaque": (
        "The compiler sees `open` as one operator. Register it for `CompositeImplicitAutograd` and nothing else: then "
        "its kernel runs above autograd, and what arrives below are its parts."
    ),
    "open is not composite": (
        "`open` is not registered for `CompositeImplicitAutograd`, or its kernel hides its parts in a function with a "
        "derivative of its own. Make it of PyTorch's operators: then autograd sees these."
    ),
    "whole is taken apart": (
        "The compiler sees the parts of `whole`. `CompositeImplicitAutograd` runs above autograd and hides the "
        "operator from what is below. Use `CompositeExplicitAutograd`."
    ),
    "not compiled": "`torch.compile` failed, or the gradient of what it compiled.",
    "table incomplete": (
        'For each of the six pairs `seen_by_each_stage()` has either "operator" (the stage sees it by its name) or '
        '"parts".'
    ),
    "Dynamo takes apart": (
        "Dynamo reads Python's bytecode. It writes down the call that you wrote, `open` or `whole`, and does not look "
        "into it."
    ),
    "open reaches the mode": (
        "A composite implicit kernel runs as soon as the call is dispatched. What reaches the key Python, where a "
        "mode stands, are the operators that it calls. AOTAutograd records there, too."
    ),
    "whole does not reach the mode": (
        "An explicit kernel is found at a backend's key, the last of all. On the way down to it a mode, and "
        "AOTAutograd, meet the operator whole."
    ),
}

SCHEMA = "(Tensor x, float slope) -> Tensor"

ROUNDED_BY = 6e-8
"""How much single precision changes the slopes of hidden cases, at least; half a unit is 1.2e-7 there."""

SEES = {
    "open dynamo": "operator",
    "open mode": "parts",
    "open aot": "parts",
    "whole dynamo": "operator",
    "whole mode": "operator",
    "whole aot": "operator",
}
"""What each stage of PyTorch sees; a test looks."""


def hidden_cases(random: Random) -> list[Case]:
    """Other shapes, orders in memory and slopes; once with a compiler."""
    seed = random.randrange
    return [
        Case("swapped", inputs([3, 2], seed(10**6), slope=_slope(random), swapped=True)),
        Case("no dimensions", inputs([], seed(10**6), slope=-_slope(random))),
        Case("a slope that single precision cannot hold", inputs([4, 5], seed(10**6), slope=_slope(random))),
        Case("no elements", inputs([0, 3], seed(10**6))),
        Case("slope of zero", inputs([4], seed(10**6), slope=0.0)),
        Case("a number that is 0", inputs([4], seed(10**6), zero=True)),
        Case("another call in between", inputs([4], seed(10**6), slope=_slope(random), between=True)),
        Case("one after the other", inputs([4], seed(10**6), slope=_slope(random), twice=True)),
        Case("large numbers", inputs([5], 7, large=True)),
        Case("single precision", inputs([2, 2, 2], seed(10**6), dtype="float32", slope=3.0)),
        Case("compiled", inputs([4, 1], seed(10**6), slope=_slope(random), compiled=True)),
    ]


def _slope(random: Random) -> float:
    """A slope that single precision cannot hold: rounded to it, it is another one by more than the judge lets pass."""
    while True:
        slope = random.uniform(2.1, 3.9)
        if abs(slope - torch.tensor(slope, dtype=torch.float32).item()) > ROUNDED_BY:
            return slope


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconceptions behind wrong results, the first of each operator."""
    slope = case.parameters["slope"]
    for name, schemas in evidence.values["schemas"].items():
        if schemas != [name + SCHEMA]:
            yield "other schema", f"(of {name}: found {' and '.join(schemas)}, wanted {name}{SCHEMA})"
            return
    wanted = derivatives(lambda x: x * torch.sigmoid(slope * x), case.parameters)
    for name in OPERATORS:
        found = _difference(case, evidence, name, wanted)
        if found is not None:
            yield found, f"(of {name})"
            return
    for name in OPERATORS:
        found = _compiled(evidence, name) if case.parameters["compiled"] else None
        if found is not None:
            yield found, f"(of {name})"
            return
    if case.parameters["compiled"] and evidence.values["composite"]["open"] is not True:
        yield "open is not composite", "(of open)"
        return
    if case.parameters["compiled"] and evidence.values["formulas"]["whole"] is not True:
        yield "no formula", "(of whole)"
        return
    told = evidence.values["sees"]
    for pair, right in SEES.items():
        if told[pair] != right:
            yield _stage(pair, told[pair]), f"({' at the stage '.join(pair.split())})"
            return


def _difference(case: Case, evidence: Evidence, name: str, wanted: dict[str, torch.Tensor]) -> str | None:
    def right(what: str, other: torch.Tensor | None = None) -> bool:
        return agrees(found(what), wanted[what] if other is None else other, relative=close, absolute=close)

    def found(what: str) -> torch.Tensor | None:
        return evidence.tensors.get(f"{name} {what}")

    close = 1e-9 if case.parameters["dtype"] == "float64" else 1e-4

    if f"{name} value" not in evidence.tensors:
        return "input overwritten"
    if not right("value"):
        return _wrong_value(evidence.tensors[f"{name} value"], wanted["value"])
    if case.parameters["large"]:
        return None
    if f"{name} gradient" not in evidence.tensors:
        return "no derivative"
    if not right("gradient"):
        if case.parameters["between"] and any(right("gradient", one) for one in _of_another_call(case)):
            return "context of another call"
        if _in_single_precision(case, found("gradient"), wanted["gradient"]):
            return "single precision"
        weights = made(case.parameters)[1]
        return "gradient not weighted" if right("gradient", wanted["gradient"] / weights) else "wrong derivative"
    if not right("incoming"):
        return "incoming gradient overwritten"
    if not right("second"):
        if _in_single_precision(case, found("second"), wanted["second"]):
            return "single precision"
        cut = case.parameters["twice"] and right("second", _with_constant_gradients(case))
        return "incoming gradient cut off" if cut else "wrong second derivative"
    meta = evidence.values["meta"][name]
    if meta is None:
        return "no meta"
    value = wanted["value"]
    *geometry, handed_back = meta
    if handed_back:
        return "input handed back on meta"
    return None if geometry == [list(value.shape), str(value.dtype)] else "other shape on meta"


def _in_single_precision(case: Case, found: torch.Tensor | None, wanted: torch.Tensor) -> bool:
    """Whether a derivative in double precision is right as far as single precision goes."""
    return case.parameters["dtype"] == "float64" and agrees(found, wanted, relative=1e-5, absolute=1e-6)


def _wrong_value(found: torch.Tensor, wanted: torch.Tensor) -> str:
    if found.dtype != wanted.dtype and agrees(found.to(wanted.dtype), wanted, relative=1e-4, absolute=1e-6):
        return "other dtype"
    if found.shape == wanted.shape and not found.isfinite().all():
        return "not a number"
    return "single precision" if agrees(found, wanted, relative=1e-4, absolute=1e-6) else "wrong values"


def _with_constant_gradients(case: Case) -> torch.Tensor:
    """The second derivative of an operator after itself, where no gradient that comes in depends on anything."""
    slope, (given, weights) = case.parameters["slope"], made(case.parameters)
    x = given.detach().requires_grad_()
    between = (x * torch.sigmoid(slope * x)).detach().requires_grad_()
    (incoming,) = torch.autograd.grad(between * torch.sigmoid(slope * between), between, weights)
    (gradient,) = torch.autograd.grad(x * torch.sigmoid(slope * x), x, incoming, create_graph=True)
    return torch.autograd.grad((gradient * weights).sum(), x)[0]


def _of_another_call(case: Case) -> Iterator[torch.Tensor]:
    """Gradients of the call in question, had it the slope, the tensor, or both of the call after it."""
    slope, weights = case.parameters["slope"], made(case.parameters)[1]
    for step, further in ((0, 1), (1, 0), (1, 1)):
        x = (made(case.parameters)[0] + step).requires_grad_()
        yield torch.autograd.grad(x * torch.sigmoid((slope + further) * x), x, weights)[0]


def _compiled(evidence: Evidence, name: str) -> str | None:
    graphs = evidence.values["graphs"][name]
    if not isinstance(graphs, dict) or "aot" not in graphs or "backward" not in graphs:
        return "not compiled"
    opaque = any(one.startswith(f"{name}.") for one in graphs["aot"])
    if opaque == (name == "whole"):
        return None
    return "open is opaque" if opaque else "whole is taken apart"


def _stage(pair: str, told: str | None) -> str:
    if told not in ("operator", "parts"):
        return "table incomplete"
    if pair.endswith("dynamo"):
        return "Dynamo takes apart"
    return "open reaches the mode" if pair.startswith("open") else "whole does not reach the mode"
