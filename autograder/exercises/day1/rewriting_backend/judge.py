"""What a right backend is: exact GELUs become tanh GELUs, nothing else changes, and the compiler's code runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run
from autograder.exchange.graph_form.nodes import all_nodes, own_nodes
from autograder.exercises.day1.rewriting_backend.visible import FORMS, SIGNATURE, build
from fxopt_core.graphs import is_operation, operation_name

MISCONCEPTIONS = {
    "returned nothing callable": (
        "Your backend must return something callable: what `compile_inner` returned is what Dynamo has to run."
    ),
    "compiler never called": (
        "`compile_inner` was never called: a rewriting backend changes the graph and then hands it on to be compiled."
    ),
    "compiled at every call": (
        "`compile_inner` is called each time the model runs. Compile in the backend, once for each graph, and return "
        "the result: that is what runs each time."
    ),
    "example inputs not passed on": (
        "`compile_inner` needs the example inputs that your backend was handed, all of them in the same order: "
        "compilers read shapes and dtypes from them."
    ),
    "compiled code thrown away": (
        "You called `compile_inner` but did not return its result: the model still runs the graph itself, and what "
        "was compiled is thrown away."
    ),
    "original handed on": (
        "The graph that reached the compiler is the original one: you rewrote a copy, or compiled before you rewrote."
    ),
    "forgot recompile": (
        "The graph is rewritten, but the code is not: after changing `graph_module.graph`, call "
        "`graph_module.recompile()`, or the module goes on computing the old thing."
    ),
    "only one rewritten": "Some exact GELUs are left: go through all nodes, not only to the first match.",
    "one form missed": (
        "An exact GELU in another form is left: it says so explicitly (`approximate='none'`), or does not say "
        "anything, or takes its input by name."
    ),
    "argument lost": (
        "A GELU in your graph has no input any more: it took it by name (`gelu(input=x)`), and you replaced all "
        "keyword arguments. Change only `approximate` and keep the others."
    ),
    "other operations changed": (
        "Operations other than exact GELU have changed: only nodes whose target is GELU may be rewritten."
    ),
    "wrong inputs": (
        "The GELUs are rewritten, but the graph computes something else: each new node must read what the old one "
        "read, and every user of the old one must read the new one."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """Stacks of random widths and activations, with exact GELUs in several forms and one other activation each."""
    cases = []
    for number in range(3):
        activations = [
            "exact",
            random.choice(["exact, said so", "exact module"]),
            "exact, by keyword",
            random.choice(["tanh", "relu"]),
            *random.choices(sorted(FORMS), k=random.randint(0, 2)),
        ]
        random.shuffle(activations)
        widths = [random.randint(2, 9) for _ in range(len(activations) + 1)]
        parameters = {
            "widths": widths,
            "activations": activations,
            "batch": random.randint(2, 5),
            "seed": random.randrange(2**31),
        }
        cases.append(Case(f"hidden {number}", parameters))
    return cases


def capture(model: torch.nn.Module, x: torch.Tensor) -> tuple[fx.GraphModule, list[Any]]:
    """The judge's own capture of a model that is one graph."""
    captured: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append((graph_module, example_inputs))
        return graph_module.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend=backend)(x)
    torch._dynamo.reset()
    return captured[0]


def is_gelu(node: fx.Node) -> bool:
    """Whether a node is a GELU of either kind."""
    return is_operation(node) and operation_name(node) in ("gelu", "aten.gelu.default")


def is_exact_gelu(node: fx.Node) -> bool:
    """Whether a node is a GELU without approximation."""
    approximate = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none")
    return is_gelu(node) and approximate == "none"


def form(node: fx.Node) -> tuple[bool, bool]:
    """How a GELU is written: whether it names `approximate`, and whether it takes its input by keyword."""
    return "approximate" in node.kwargs, "input" in node.kwargs


def rewritten(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The judge's own rewrite, in place."""
    for node in own_nodes(graph_module):
        if is_exact_gelu(node):
            node.args, node.kwargs = node.args[:1], {**node.kwargs, "approximate": "tanh"}
    graph_module.recompile()
    return graph_module


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    model, inputs = build(case)
    original, example_inputs = capture(model, inputs[0])
    exact = sum(is_exact_gelu(node) for node in all_nodes(original))
    others = _operations(original)
    values = evidence.values
    if not all(values["returned_callable"]):
        yield "returned nothing callable", ""
        return
    if not values["received"] or "received" not in evidence.graphs:
        yield "compiler never called", ""
        return
    if len(values["received"]) > 1:
        yield "compiled at every call", f"({len(values['received'])} calls of the compiler for one graph)"
        return
    if values["received"] != [[list(value.shape) for value in example_inputs]]:
        yield "example inputs not passed on", f"(the graph takes {len(example_inputs)})"
        return
    theirs = decode(evidence.graphs["received"])
    left = [node for node in all_nodes(theirs) if is_exact_gelu(node)]
    if len(left) == exact:
        yield "original handed on", f"({exact} exact GELUs before and after)"
        return
    if left:
        before = Counter(form(node) for node in all_nodes(original) if is_exact_gelu(node))
        after = Counter(form(node) for node in left)
        whole_forms = all(count == before[kind] for kind, count in after.items())
        yield ("one form missed" if whole_forms else "only one rewritten"), f"({len(left)} of {exact} left)"
        return
    if _operations(theirs) != others:
        yield "other operations changed", ""
        return
    if any(is_gelu(node) and not node.all_input_nodes for node in all_nodes(theirs)):
        yield "argument lost", ""
        return
    if "failed" in values:
        yield "wrong inputs", f"(the graph does not run: {values['failed']})"
        return
    ours = rewritten(original)
    generator = torch.Generator().manual_seed(case.parameters["seed"] % 1000)
    with torch.no_grad():
        fresh = [torch.randn(value.shape, generator=generator) for value in example_inputs]
        if not agrees(run(theirs, fresh)[0], ours(*fresh)[0], absolute=1e-6):
            yield "wrong inputs", ""
            return
        exact_outputs = [model(x) for x in inputs]
        wanted = [_run(ours, model, example_inputs, x) for x in inputs]
    outputs = [evidence.tensors[f"output{i}"] for i in range(len(inputs))]
    for output, want, unchanged in zip(outputs, wanted, exact_outputs, strict=True):
        if _close(output, SIGNATURE * want):
            continue
        if _close(output, want) or _close(output, unchanged):
            yield "compiled code thrown away", ""
        else:
            yield ("forgot recompile" if _close(output, SIGNATURE * unchanged) else "wrong inputs"), ""
        return


def _close(output: torch.Tensor, want: torch.Tensor) -> bool:
    return agrees(output, want, absolute=1e-6)


def _run(graph_module: fx.GraphModule, model: torch.nn.Module, example_inputs: list[Any], x: torch.Tensor) -> Any:
    """Run a captured graph on `x`: it takes the place of the one example input that is no weight."""
    weights = {id(parameter) for parameter in model.parameters()}
    return graph_module(*(value if id(value) in weights else x for value in example_inputs))[0]


def _operations(graph_module: fx.GraphModule) -> Counter[str]:
    """Operations by name; all GELUs are one kind."""
    return Counter(
        "gelu" if is_gelu(node) else operation_name(node) for node in all_nodes(graph_module) if is_operation(node)
    )
