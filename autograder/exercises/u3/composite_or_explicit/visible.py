"""The learner's side: inputs for both operators, the probe and what the check shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

OPERATORS = ("open", "whole")
STAGES = ("dynamo", "mode", "aot")

LONGEST, MOST_NAMES = 60, 40
"""Characters of a name, and names of a graph, that become evidence."""

_numbers = count()


def inputs(shape: list[int], seed: int, **more: Any) -> dict[str, Any]:
    """What both operators are called with.

    Args:
        shape: sizes of `x`.
        seed: of its numbers.
        more: `slope`, `dtype`; `swapped`, whether the dimensions are; `compiled`, whether the operators are compiled as
            well; `zero`, whether the first number is 0; `large`, whether the numbers are; `between`, whether there is
            another call before the backward pass; `twice`, whether the operator is called on its own result.
    """
    usual = {"slope": 1.5, "dtype": "float64", "swapped": False, "compiled": False, "zero": False, "large": False}
    return {"shape": shape, "seed": seed, **usual, "between": False, "twice": False, **more}


def visible_cases() -> list[Case]:
    """A matrix, what the compiler sees of it, and single precision."""
    return [
        Case("a matrix", inputs([3, 4], 1)),
        Case("compiled", inputs([2, 3], 2, compiled=True)),
        Case("single precision", inputs([5], 3, dtype="float32", slope=-0.5)),
    ]


def made(parameters: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Input, and what its gradient is weighted with."""
    generator = torch.Generator().manual_seed(parameters["seed"])
    x, weights = torch.randn(2, *parameters["shape"], generator=generator, dtype=torch.float64)
    if parameters["zero"]:
        x.flatten()[0] = 0.0
    if parameters["large"]:
        x = 1000 * (x.sign() + x)
    x, weights = x.to(getattr(torch, parameters["dtype"])), weights.to(getattr(torch, parameters["dtype"]))
    return (x.T, weights.T) if parameters["swapped"] else (x, weights)


def derivatives(
    function: Callable[[torch.Tensor], torch.Tensor], parameters: dict[str, Any]
) -> dict[str, torch.Tensor]:
    """Value, gradient and second derivative of a function of one tensor, and the gradient that came in, as it is then.

    What fails is left out.
    """
    given, weights = made(parameters)
    x = given.detach().requires_grad_()
    found = {}
    try:
        found["value"] = function(function(x)) if parameters["twice"] else function(x)
        incoming = weights.clone()
        (found["gradient"],) = torch.autograd.grad(found["value"], x, incoming, create_graph=True)
        found["incoming"] = incoming
        (found["second"],) = torch.autograd.grad((found["gradient"] * weights).sum(), x)
    except RuntimeError:
        pass
    if not torch.equal(x.detach(), made(parameters)[0]):
        found.pop("value", None)
    return {name: one.detach() for name, one in found.items() if isinstance(one, torch.Tensor)}


def probe(case: Case, define: Any, sees: Any) -> Evidence:
    """Define the operators in a library of their own, call them, and compile them."""
    space = f"exercise13_{next(_numbers)}"
    library = torch.library.Library(space, "DEF")
    define(library)
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {"meta": {}, "formulas": {}, "graphs": {}, "sees": _table(sees())}
    values |= {"schemas": {}, "composite": {}}
    slope = case.parameters["slope"]
    for name in OPERATORS:
        operator = getattr(getattr(torch.ops, space), name)
        called = partial(_called_twice if case.parameters["between"] else _called, operator, slope=slope)
        found = derivatives(called, case.parameters)
        tensors |= {f"{name} {what}": one for what, one in found.items()}
        values["formulas"][name] = any(
            torch._C._dispatch_has_kernel_for_dispatch_key(f"{space}::{name}", key)
            for key in ("Autograd", "AutogradCPU")
        )
        values["composite"][name] = torch._C._dispatch_has_kernel_for_dispatch_key(
            f"{space}::{name}", "CompositeImplicitAutograd"
        ) and not _has_a_formula(called, case.parameters)
        schemas = [str(getattr(operator, overload)._schema) for overload in operator.overloads()]
        values["schemas"][name] = [one.removeprefix(f"{space}::")[: 2 * LONGEST] for one in schemas[:MOST_NAMES]]
        values["meta"][name] = _on_meta(operator, case.parameters)
        if case.parameters["compiled"]:
            values["graphs"][name] = _graphs(operator, case.parameters, space)
    library._destroy()
    return Evidence(values, tensors)


def _called(operator: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
    return operator(x, slope=slope)


def _called_twice(operator: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
    """The result of a call after which there was another one, with another tensor and another slope."""
    result = operator(x, slope=slope)
    operator(x.detach().add(1).requires_grad_(), slope=slope + 1)
    return result


def _has_a_formula(called: Callable[[torch.Tensor], torch.Tensor], parameters: dict[str, Any]) -> bool:
    """Whether autograd noted a formula in Python on the way to a result, and not only operators of PyTorch's."""
    try:
        waiting = [called(made(parameters)[0].detach().requires_grad_()).grad_fn]
    except RuntimeError:
        return False
    known: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in known:
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                return True
            known.add(node)
            waiting += [further for further, _ in node.next_functions]
    return False


def _table(sees: Any) -> dict[str, Any]:
    known = sees if isinstance(sees, dict) else {}
    return {
        f"{name} {stage}": value if isinstance(value := known.get((name, stage)), str) else None
        for name in OPERATORS
        for stage in STAGES
    }


def _on_meta(operator: Any, parameters: dict[str, Any]) -> list[Any] | None:
    x = made(parameters)[0].to("meta")
    try:
        found = operator(x, parameters["slope"])
    except RuntimeError:
        return None
    if not isinstance(found, torch.Tensor) or found.device.type != "meta":
        return None
    handed_back = found.untyped_storage()._cdata == x.untyped_storage()._cdata
    return [list(found.shape), str(found.dtype), handed_back]


def _graphs(operator: Callable[..., torch.Tensor], parameters: dict[str, Any], space: str) -> Any:
    """What Dynamo records, and what AOTAutograd makes of it; `None` where compiling fails."""
    from torch._dynamo.backends.common import aot_autograd

    seen: dict[str, list[str]] = {}

    def keeps(stage: str) -> Callable[..., Any]:
        def compiler(graph: torch.fx.GraphModule, _: Any) -> Any:
            names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
            seen[stage] = [name.replace(f"{space}.", "")[:LONGEST] for name in names[:MOST_NAMES]]
            return graph

        return compiler

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        keeps("dynamo")(graph, example)
        return aot_autograd(fw_compiler=keeps("aot"), bw_compiler=keeps("backward"))(graph, example)

    x, slope = made(parameters)[0].detach().requires_grad_(), parameters["slope"]
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.compile(lambda one: operator(one, slope), backend=backend, fullgraph=True)(x).sum().backward()
        except Exception:  # Dynamo raises several unrelated types
            return None
    return seen


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What came of each operator, and what the compiler saw."""
    lines = [f"{case.name}:"]
    for name in OPERATORS:
        there = [what for what in ("value", "gradient", "second") if f"{name} {what}" in evidence.tensors]
        lines.append(f"  {name}: {', '.join(there) or 'nothing'}; on meta {evidence.values['meta'][name]}")
        if case.parameters["compiled"]:
            graphs = evidence.values["graphs"][name]
            lines += [
                f"    {stage}: {', '.join(names)}" for stage, names in (graphs or {"compiling": ["failed"]}).items()
            ]
    return ["\n".join(lines)]
