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
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import once_a_case
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
        "`compile_inner` needs the example inputs that your backend was handed, themselves and all of them, in the "
        "same order: compilers read shapes and dtypes from them, and which of them are parameters."
    ),
    "compiled code thrown away": (
        "You called `compile_inner` but did not return its result: the model still runs the graph itself, and what "
        "was compiled is thrown away. Return it whatever it is: something callable may be false, as an empty list is."
    ),
    "backends share something": (
        "Two backends made by `make_backend` get in each other's way: each must hand its graphs to the `compile_inner` "
        "that it was made with."
    ),
    "one graph for all": (
        "A model with a graph break reaches your backend in several graphs. Each is compiled by itself: one call of "
        "`compile_inner` for each graph, and its result runs in the place of that graph."
    ),
    "taken for an earlier graph": (
        "For inputs of another size Dynamo captures the model anew and hands your backend another graph. Its code is "
        "that of an earlier one, but it is to be compiled for these inputs: call `compile_inner` for each graph."
    ),
    "write lost": (
        "The model no longer writes into its buffer. A node whose value nobody reads may still do something: leave "
        "everything but the GELUs as it is."
    ),
    "original handed on": (
        "The graph that reached the compiler is the original one: you rewrote a copy, or compiled before you rewrote."
    ),
    "forgot recompile": (
        "The graph is rewritten, but the code is not: after changing `graph_module.graph`, call "
        "`graph_module.recompile()`, or the module goes on computing the old thing."
    ),
    "only one rewritten": (
        "You rewrote the first exact GELU of a graph and left others. Go through all nodes, past the first match, and "
        "tell a GELU by its `target`: a name says nothing about what a node calls."
    ),
    "told by name": (
        "You looked for nodes that are *named* after GELU. Dynamo names nodes after Python variables: here a ReLU is "
        "called `gelu`, and a GELU `relu`. Look at `node.target`."
    ),
    "first graph only": (
        "The exact GELUs of the first graph are rewritten, those of a later graph are all left. Your backend is called "
        "once for each graph, and must do its work each time."
    ),
    "default missed": (
        'The exact GELUs that do not mention `approximate` are left. `"none"` is its default, so a GELU that says '
        "nothing is exact, too."
    ),
    "said so missed": (
        'The exact GELUs that spell it out, `approximate="none"`, are left. They are as exact as those that do not '
        "mention it."
    ),
    "input by name missed": (
        "The exact GELUs that take their input by name, `gelu(input=x)`, are left: they have no positional arguments."
    ),
    "GELUs left": 'Some exact GELUs are left. Each of them is to become `gelu(x, approximate="tanh")`.',
    "argument lost": (
        "A GELU in your graph has no input any more: it took it by name (`gelu(input=x)`), and you replaced all "
        "keyword arguments. Change only `approximate` and keep the others."
    ),
    "other operations changed": (
        "Operations other than exact GELU have changed: only nodes whose target is GELU may be rewritten."
    ),
    "GELU gone": (
        'There are fewer GELUs in your graph than before. Each exact one must become `gelu(x, approximate="tanh")`, '
        "the same function with another keyword, not a formula of your own. The others stay, read or not."
    ),
    "moved": (
        "A GELU of yours is in another place than the one that was there: what it reads is written in between, so it "
        "computes with other values. Change the node where it stands, or put the new one in front of it."
    ),
    "result wrapped": (
        "Your backend returns something else than what `compile_inner` returned. Return its result itself: a wrapper "
        "may cut off gradients, or hide how it wants to be called."
    ),
    "wrong inputs": (
        "The GELUs are rewritten, but the graph computes something else: each new node must read what the old one "
        "read, and every user of the old one must read the new one."
    ),
}

UNNAMED = ("GELUs left",)

FIXED: dict[str, dict[str, Any]] = {
    "a GELU that reads a GELU": {
        "activations": ["exact of exact", "exact, read by several", "exact of exact"],
        "bare": True,
    },
    "no GELU": {"activations": ["relu", "sigmoid"], "idle": True},
    "the second graph has none": {"activations": ["exact", "relu", "sigmoid"], "breaks": 1},
    "every form in both graphs": {
        "activations": ["exact", "exact, said so", "exact, by keyword"] * 2,
        "breaks": 3,
        "writes": True,
    },
    "what a GELU reads is written afterwards": {
        "activations": ["exact", "exact, by keyword", "exact, said so"],
        "overwrites": True,
    },
    "inputs of another size": {"activations": ["exact", "tanh"], "second_batch": 5},
    "two graphs, and inputs of another size": {"activations": ["exact", "exact"], "breaks": 1, "second_batch": 1},
}
"""Activations of a hidden case for each class, the same for every seed."""


def hidden_cases(random: Random) -> list[Case]:
    """The fixed ones, then stacks of random widths with exact GELUs in several forms; two graphs, names, writes."""
    cases = [
        Case(
            f"hidden {name}",
            {"widths": [4, 5, 3, 6, 2, 4, 3][: 1 + len(given["activations"])], "batch": 3, "seed": 5} | given,
        )
        for name, given in FIXED.items()
    ]
    for number in range(2):
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
        more = ({"breaks": 2}, {"misleading": True, "writes": True})[number]
        cases.append(Case(f"hidden {number}", parameters | more))
    return cases


def capture(model: torch.nn.Module, inputs: list[torch.Tensor]) -> list[tuple[fx.GraphModule, list[Any]]]:
    """The judge's own capture: each graph with its example inputs, as they were before it ran."""
    captured: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append((graph_module, list(example_inputs)))
        return graph_module.forward

    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend=backend, dynamic=False)
        for x in inputs:
            compiled(x)
    torch._dynamo.reset()
    return captured


@once_a_case
def captured_of(case: Case) -> list[tuple[fx.GraphModule, list[Any]]]:
    """The captured graphs of a case. Nobody may change them: see `copy_of`."""
    model, inputs = build(case)
    return capture(model, inputs)


def copy_of(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The same graph once more, with the same modules and tensors."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(graph_module.graph, {}))
    return fx.GraphModule(graph_module, graph)


def compiled_by(model: torch.nn.Module, factor: float, change: Callable[[fx.GraphModule], Any]) -> Callable[..., Any]:
    """The model, compiled by a backend that changes each graph and multiplies what it returns."""

    def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        change(graph_module)
        forward = graph_module.forward
        return lambda *inputs: [output * factor for output in forward(*inputs)]

    torch._dynamo.reset()
    compiled: Callable[..., Any] = torch.compile(model, backend=backend, dynamic=False)
    return compiled


def is_gelu(node: fx.Node) -> bool:
    """Whether a node is a GELU of either kind."""
    return is_operation(node) and operation_name(node) in ("gelu", "aten.gelu.default")


def is_exact_gelu(node: fx.Node) -> bool:
    """Whether a node is a GELU without approximation."""
    approximate = node.kwargs.get("approximate", node.args[1] if len(node.args) > 1 else "none")
    return is_gelu(node) and approximate == "none"


def rewritten(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The judge's own rewrite, in place."""
    for node in own_nodes(graph_module):
        if is_exact_gelu(node):
            node.args, node.kwargs = node.args[:1], {**node.kwargs, "approximate": "tanh"}
    graph_module.recompile()
    return graph_module


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    captured = captured_of(case)
    values = evidence.values
    if not all(values["returned_callable"]):
        yield "returned nothing callable", ""
        return
    if values["another"]:
        yield "backends share something", ""
        return
    received = [evidence.graphs.get(f"received{i}") for i in range(len(captured))]
    if not values["received"] or received[0] is None:
        yield "compiler never called", ""
        return
    graphs = f"for {len(captured)} graphs" if len(captured) > 1 else "for one graph"
    if values.get("failed"):
        captured = captured[: len(values["received"])]  # the first graph that does not run ended it
        received = received[: len(captured)]
    if len(values["received"]) < len(captured):
        sizes = case.parameters.get("second_batch", case.parameters["batch"]) != case.parameters["batch"]
        name = "taken for an earlier graph" if sizes else "one graph for all"
        yield name, f"({len(values['received'])} calls of the compiler {graphs})"
        return
    if len(values["received"]) > len(captured):
        yield "compiled at every call", f"({len(values['received'])} calls of the compiler {graphs})"
        return
    if values["received"] != [[list(value.shape) for value in given] for _, given in captured]:
        yield "example inputs not passed on", f"(the graph takes {len(captured[0][1])})"
        return
    if not all(values["very same"]):
        yield "example inputs not passed on", "(others of the same shapes)"
        return
    theirs = [decode(graph) for graph in received if graph is not None]
    left = _left(theirs, [graph for graph, _ in captured])
    yield left
    if isinstance(left, Deviation):
        return
    for graph, (ours, example_inputs) in zip(theirs, captured, strict=True):
        if finding := _changed(graph, ours, example_inputs, case.parameters["seed"], values.get("failed", "")):
            yield finding
            return
    yield from _what_ran(case, evidence)


def _left(theirs: list[fx.GraphModule], ours: list[fx.GraphModule]) -> Deviation | Agreement:
    """Which exact GELUs are left, and the mistakes that would have left just these."""
    exact = [(number, node) for number, graph in enumerate(ours) for node in all_nodes(graph) if is_exact_gelu(node)]
    left = {
        (number, node.name) for number, graph in enumerate(theirs) for node in all_nodes(graph) if is_exact_gelu(node)
    }

    def those(belongs: Callable[[int, fx.Node], bool]) -> set[tuple[int, str]]:
        return {(number, node.name) for number, node in exact if belongs(number, node)}

    firsts = dict(reversed(exact))
    mistakes = {
        "original handed on": [those(lambda number, node: True)],
        "default missed": [
            those(lambda number, node: "approximate" not in node.kwargs),
            those(lambda number, node: not node.kwargs),
        ],
        "said so missed": [those(lambda number, node: "approximate" in node.kwargs)],
        "input by name missed": [those(lambda number, node: "input" in node.kwargs)],
        "only one rewritten": [
            those(lambda number, node: node is not firsts[number]),
            those(lambda number, node: node.name != "gelu"),
        ],
        "told by name": [those(lambda number, node: not node.name.startswith("gelu"))],
        "first graph only": [those(lambda number, node: number > 0)],
    }
    if not left:
        return Agreement("GELUs left", tuple(name for name, ways in mistakes.items() if all(ways)))
    fits = tuple(name for name, ways in mistakes.items() if left in ways)
    names = ", ".join(name for _, name in sorted(left))
    return Deviation("GELUs left", fits, f"({len(left)} of {len(exact)} exact GELUs left: {names})", len(exact))


def _changed(
    theirs: fx.GraphModule, original: fx.GraphModule, example_inputs: list[Any], seed: int, failed: str
) -> tuple[str, str] | None:
    """What else is not as it was in one graph."""
    before, after = _operations(original), _operations(theirs)
    if before != after:
        gone = ", ".join((before - after).keys()) or "nothing"
        written = [name for name in before - after if name.endswith("_")]
        if "gelu" in before - after and not written:
            return "GELU gone", f"(no longer there: {gone})"
        return ("write lost" if written else "other operations changed"), f"(no longer there: {gone})"
    if any(is_gelu(node) and not node.all_input_nodes for node in all_nodes(theirs)):
        return "argument lost", ""
    if failed:
        return "wrong inputs", f"(the graph does not run: {failed})"
    generator = torch.Generator().manual_seed(seed % 1000)
    fresh = [torch.randn(value.shape, generator=generator) for value in example_inputs]
    with torch.no_grad():
        wanted = rewritten(copy_of(original))(*(value.clone() for value in fresh))
        found = run(theirs, fresh)
    if len(found) != len(wanted) or not all(agrees(a, b, absolute=1e-6) for a, b in zip(found, wanted, strict=True)):
        return ("wrong inputs" if _in_order(original) == _in_order(theirs) else "moved"), ""
    return None


def outputs(case: Case, factor: float, change: Callable[[fx.GraphModule], Any]) -> list[torch.Tensor]:
    """What the case's model returns call by call, compiled by `compiled_by`."""
    model, inputs = build(case)
    with torch.no_grad():
        compiled = compiled_by(model, factor, change)
        return [compiled(x) for x in inputs]


@once_a_case
def right_outputs(case: Case) -> list[torch.Tensor]:
    """What it returns where the rewritten graph is what runs."""
    return outputs(case, SIGNATURE, rewritten)


def _what_ran(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Whether what the compiler made is what ran, and in each call."""

    found = [evidence.tensors[f"output{i}"] for i in range(2)]

    def agree(others: list[torch.Tensor]) -> bool:
        return all(_close(one, other) for one, other in zip(found, others, strict=True))

    def same(factor: float, change: Callable[[fx.GraphModule], Any]) -> bool:
        return agree(outputs(case, factor, change))

    if not agree(right_outputs(case)):
        if same(1.0, rewritten) or same(1.0, lambda graph_module: None):
            yield "compiled code thrown away", ""
        else:
            stale = same(SIGNATURE, lambda graph_module: None)
            yield ("forgot recompile" if stale else "wrong inputs"), ""
        return
    model, inputs = build(case)
    with torch.no_grad():
        for x in inputs:
            model(x)
    if not agrees(evidence.tensors.get("count"), model.count):
        yield "write lost", ""
    if any(evidence.values["wrapped"]):
        yield "result wrapped", ""


def _close(output: torch.Tensor, want: torch.Tensor) -> bool:
    return agrees(output, want, absolute=1e-6)


def _operations(graph_module: fx.GraphModule) -> Counter[str]:
    """How often each operation is there; all GELUs are one kind."""
    return Counter(_in_order(graph_module))


def _in_order(graph_module: fx.GraphModule) -> list[str]:
    """Operations by name, first to last; all GELUs are one kind."""
    return ["gelu" if is_gelu(node) else operation_name(node) for node in all_nodes(graph_module) if is_operation(node)]
