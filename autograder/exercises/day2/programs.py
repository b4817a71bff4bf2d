"""Programs that the cases of this day are made of, and what a learner's rewrite made of them.

A case holds a few lines of Python; they are traced into an FX graph. The lines come from the case, which the judge
made, and never from a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from types import FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.learner_side.creations import NodesOfCreations

SHOWN_NODES = 40
"""Most nodes of a graph of which the check still draws a picture."""


def program(
    name: str,
    body: str,
    *,
    arguments: str = "x",
    state: Mapping[str, str] | None = None,
    inputs: tuple[Any, ...] = ((2, 4),),
    training: bool = False,
    seed: int = 0,
    **more: Any,
) -> Case:
    """A case that holds a program.

    Args:
        name: of the case; the judge knows by the entry `trap` what it is there for.
        body: the lines of `forward`, separated by newlines.
        arguments: the names of its arguments.
        state: attributes of the module by name, each as the expression that makes it. A later one may use `self`.
        inputs: one entry an argument: the shape of a float32 tensor, or a list of a shape and the name of a dtype.
        training: whether the module is in training.
        seed: of the values of parameters.
        more: further entries. `modes` says of modules, by path, that they are in training whatever `training` says;
            with `positional` functions of `torch.nn.functional` get all their arguments by position, as Dynamo may
            record them; `paths` says of nodes, by name, at which other path they find the module that they call;
            `renamed` says of nodes, by name, what they are called instead.
    """
    given = {
        "body": body,
        "arguments": arguments,
        "state": dict(state or {}),
        "inputs": [list(entry) for entry in inputs],
        "training": training,
        "seed": seed,
        **more,
    }
    return Case(name, given)


class ProgramTracer(fx.Tracer):
    """Reads buffers as nodes (`get_attr`), as it does parameters."""

    proxy_buffer_attributes = True


READS_NOTHING = frozenset(
    {
        torch.arange, torch.eye, torch.full, torch.linspace, torch.ones, torch.rand, torch.randn, torch.zeros,
        torch._C._set_grad_enabled, torch.amp.autocast_mode._enter_autocast, torch.amp.autocast_mode._exit_autocast,
    }
)  # fmt: skip
"""Functions of which a call is a node though it reads no value of the graph: they create tensors, or switch a mode."""


def trace(module: nn.Module) -> fx.GraphModule:
    """The graph of what a module's `forward` really runs."""
    tracer = ProgramTracer()
    tracer.graph = fx.Graph()
    with NodesOfCreations(tracer, READS_NOTHING):
        graph = tracer.trace(module)
    result = fx.GraphModule(tracer.root, graph)
    result.training = module.training  # alone: modules in it may be in another mode
    return result


def build(case: Case) -> fx.GraphModule:
    """The case's program as a graph module. Each call makes another one with equal parameters."""
    graph_module = trace(make_module(case))
    if case.parameters.get("positional"):
        _by_position(graph_module)
    if paths := case.parameters.get("paths"):
        _at_other_paths(graph_module, paths)
    if renamed := case.parameters.get("renamed"):
        _renamed(graph_module, renamed)
    return graph_module


def _renamed(graph_module: fx.GraphModule, renamed: Mapping[str, str]) -> None:
    """Give nodes other names: symbolic tracing calls each one after its target, but a name says nothing."""
    for node in graph_module.graph.nodes:
        node.name = renamed.get(node.name, node.name)
    graph_module.recompile()


def _at_other_paths(graph_module: fx.GraphModule, paths: Mapping[str, str]) -> None:
    """Let nodes call their module by a second path: symbolic tracing knows one path of each module, the first."""
    for node in graph_module.graph.nodes:
        if node.name in paths:
            graph_module.add_submodule(paths[node.name], graph_module.get_submodule(node.target))
            node.target = paths[node.name]
    graph_module.recompile()


def _by_position(graph_module: fx.GraphModule) -> None:
    """Write arguments of functions by position: symbolic tracing gives `inplace` and the like by keyword, always."""
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, FunctionType):
            bound = signature(node.target).bind(*node.args, **node.kwargs)
            bound.apply_defaults()
            node.args, node.kwargs = bound.args, bound.kwargs
    graph_module.recompile()


def make_module(case: Case) -> nn.Module:
    """The case's program as a module that is not traced."""
    given = case.parameters
    lines = "\n".join(f"    {line}" for line in given["body"].splitlines())
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": functional}
    exec(compile(f"def forward(self, {given['arguments']}):\n{lines}\n", "<program>", "exec"), names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        root: Any = type("Program", (nn.Module,), {"forward": names["forward"]})()
        for name, expression in given["state"].items():
            value = eval(expression, {**names, "self": root})
            if type(value) is torch.Tensor:
                root.register_buffer(name, value)
            else:
                setattr(root, name, value)
        for module in root.modules():
            _without_defaults(module)
    made: nn.Module = root.train(given["training"])
    for name, training in given.get("modes", {}).items():
        made.get_submodule(name).train(training)
    return made


def _without_defaults(module: nn.Module) -> None:
    """Give a normalisation layer statistics and weights as they are after training: not zeros and ones."""
    for name in ("running_mean", "running_var", "weight", "bias"):
        value = getattr(module, name, None)
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and isinstance(value, torch.Tensor):
            with torch.no_grad():
                value.uniform_(0.5, 2.0)


def inputs_of(case: Case, seed: int, rows: int | None = None) -> list[torch.Tensor]:
    """One tensor an argument: normal numbers, or for whole numbers 0 to 4; with `rows` in another batch size."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for entry in case.parameters["inputs"]:
        shape, dtype = (entry[0], entry[1]) if entry and isinstance(entry[0], list) else (entry, "float32")
        shape = shape if rows is None else [rows, *shape[1:]]
        kind = getattr(torch, dtype)
        if kind.is_floating_point:
            found.append(torch.randn(shape, generator=generator).to(kind))
        else:
            found.append(torch.randint(0, 5, shape, generator=generator).to(kind))
    return found


def rewrite_evidence(case: Case, function: Callable[[fx.GraphModule], Any]) -> Evidence:
    """What the learner's rewrite makes of the case's graph.

    `graphs["graph"]` is the graph of the module that it returns, `graphs["code"]` what that module really runs, traced
    anew, and `graphs["again"]` the graph after a second run.
    """
    result = function(build(case))
    evidence = Evidence(
        {"returned": type(result).__name__ if not isinstance(result, fx.GraphModule) else "GraphModule"}
    )
    if not isinstance(result, fx.GraphModule):
        return evidence
    try:
        result.graph.lint()
        evidence.graphs["graph"] = encode(result)
    except (RuntimeError, GraphFormatError, AttributeError, TypeError) as error:
        evidence.values["malformed"] = str(error)[:300]
        return evidence
    try:
        evidence.graphs["code"] = encode(trace(result))
    except Exception as error:  # stale code may call or read what is no longer there, and fails in any way
        evidence.values["code_fails"] = f"{type(error).__name__}: {error}"[:300]
    try:
        again = function(result)
    except Exception as error:  # the learner's code may fail in any way on what it made itself
        evidence.values["again_fails"] = f"{type(error).__name__}: {error}"[:300]
        return evidence
    if isinstance(again, fx.GraphModule):
        evidence.graphs["again"] = encode(again)
    return evidence


def show_rewrite(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, drawn with what changed marked, and the change as text."""
    from fxopt_workbench.pictures import draw
    from fxopt_workbench.structure.diff import diff_graphs

    if "graph" not in evidence.graphs:
        return []
    before, after = build(case), decode(evidence.graphs["graph"])
    difference = diff_graphs(before, after)
    return [
        draw(before, title=f"{case.name}: before", highlight=difference.marked_before),
        draw(after, title=f"{case.name}: after", highlight=difference.marked_after),
        f"{case.name}: {difference}",
    ]
