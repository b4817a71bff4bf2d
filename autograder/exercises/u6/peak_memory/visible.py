"""The learner's side: training steps as graphs, the probe, and the check, which shows what the profiler measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves

from autograder.exchange.evidence import Case, Evidence
from fxopt_workbench.internals.memory_curve import quiet

LONGEST = 200
"""Characters of a node's name that become evidence."""

RATE = 0.1

Spec = dict[str, Any]
"""`features` of the input, `rows` of the batch, `layers` (`["linear", features]`, or a name of `BODIES`), `update`
(`"sgd"`, `"momentum"` or `"none"`), `loss` (`"square"` or `"classes"`), `dtype`, `returns_output`, `sliced` (whether
the input is a part of a larger tensor), `together` (whether
the input and the target are two parts of one tensor), `unread` (whether the graph has a node that nobody reads),
`pairs` (whether it has one of two results that nobody reads), `keywords` (whether it has a node that reads another
one by keyword only), and `spare` (rows of an input that nobody reads; 0: there is none)."""

BODIES: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "leaky": lambda x: torch.where(x > 0, x, x * 0.1),
    "normed": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "softmax": lambda x: functional.softmax(x, -1),
    "widened": lambda x: torch.cat([x, x], -1),
    "first half": lambda x: x[:, : x.shape[-1] // 2],
    "residual": lambda x: x + torch.tanh(x),
    "scaled in place": lambda x: (x + 1).mul_(0.5),
}
"""What stands between two linear layers."""


def step(features: int, rows: int, *layers: str | int, **more: Any) -> Spec:
    """A training step; a number among the layers is a linear one with so many features."""
    given = {"update": "sgd", "loss": "square", "dtype": "float32", "returns_output": False}
    given |= {"sliced": False, "together": False, "unread": False, "pairs": False, "keywords": False, "spare": 0}
    listed = [["linear", one] if isinstance(one, int) else [one] for one in layers]
    return {"features": features, "rows": rows, "layers": listed, **given, **more}


def visible_cases() -> list[Case]:
    """One layer, a network, one that keeps views, and one that updates nothing."""
    return [
        Case("one layer", {"step": step(8, 32, 64, update="none")}),
        Case("two layers", {"step": step(32, 128, 64, "relu", 8)}),
        Case("views", {"step": step(16, 64, 128, "first half", "tanh", 8, update="momentum")}),
        Case("gradients only", {"step": step(32, 16, 64, "normed", 8, update="none", loss="classes")}),
    ]


def graph_of(given: Spec) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The step as a graph whose nodes have `meta["val"]`, and inputs to run it on."""
    inputs, run = _program(given)
    module = make_fx(run, tracing_mode="fake")(*inputs)
    if given["unread"]:
        _put_unread(module)
    if given["pairs"]:
        _put_pair(module)
    if given["keywords"]:
        _put_keywords(module)
    return module, [*_put_spare(module, given["spare"]), *inputs]


def _put_spare(module: fx.GraphModule, rows: int) -> list[torch.Tensor]:
    """Put an input that nobody reads before the others (with rows of 16 numbers), and return what to give for it."""
    if not rows:
        return []
    spare = torch.zeros(rows, 16)
    first = next(iter(module.graph.nodes))
    with module.graph.inserting_before(first):
        node = module.graph.placeholder("spare")
        node.meta["val"] = first.meta["val"].fake_mode.from_tensor(spare)
    module.recompile()
    return [spare]


def _put_unread(module: fx.GraphModule) -> None:
    """Put a large node that nobody reads behind the first operator; tracing leaves out what a program has of that."""
    first = next(node for node in module.graph.nodes if node.op == "call_function")
    arguments = ([first] * 40, 0)
    with module.graph.inserting_after(first), first.meta["val"].fake_mode:
        unread = module.graph.call_function(torch.ops.aten.cat.default, arguments)
        unread.meta["val"] = torch.cat([first.meta["val"]] * 40, 0)
        # What other tools note beside `val` is not what the node makes.
        unread.meta["example_value"] = torch.empty(2**20)
    module.recompile()


def _put_pair(module: fx.GraphModule) -> None:
    """Put a node with two results behind the largest one; nobody takes them apart, and the second is the larger."""
    operators = [node for node in module.graph.nodes if node.op == "call_function"]
    largest = max(operators, key=lambda node: node.meta["val"].numel())
    with module.graph.inserting_after(largest), largest.meta["val"].fake_mode:
        pair = module.graph.call_function(torch.ops.aten.cummax.default, (largest, 0))
        pair.meta["val"] = torch.ops.aten.cummax.default(largest.meta["val"], 0)
    module.recompile()


def _put_keywords(module: fx.GraphModule) -> None:
    """Name every argument of each operator, as passes may: `add(self=…, other=…)`."""
    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            names = [one.name for one in node.target._schema.arguments]
            node.kwargs = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
            node.args = ()
    module.recompile()


def _program(given: Spec) -> tuple[list[torch.Tensor], Callable[..., Any]]:
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, given["dtype"])

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype) / 8

    parameters, width = [], given["features"]
    for kind, *size in given["layers"]:
        if kind == "linear":
            parameters += [drawn(size[0], width), drawn(size[0])]
            width = size[0]
        else:
            width = BODIES[kind](torch.empty(1, width)).shape[-1]
    count = len(parameters)
    momenta = [torch.zeros_like(one) for one in parameters] if given["update"] == "momentum" else []
    classes = given["loss"] == "classes"
    target = torch.arange(given["rows"]) % width if classes else drawn(given["rows"], width)
    batch = drawn(given["rows"], given["features"])
    if given["sliced"]:
        batch = drawn(4 * given["rows"], given["features"])[: given["rows"]]
    if given["together"]:
        batch, target = drawn(2 * given["rows"], width).chunk(2)
    inputs = [one.requires_grad_() for one in parameters] + [*momenta, batch, target]

    def run(*tensors: torch.Tensor) -> Any:
        weights, past, (h, wanted) = list(tensors[:count]), tensors[count:-2], tensors[-2:]
        place = 0
        for kind, *_ in given["layers"]:
            if kind == "linear":
                h = functional.linear(h, weights[place], weights[place + 1])
                place += 2
            else:
                h = BODIES[kind](h)
        loss = functional.cross_entropy(h, wanted) if classes else ((h - wanted) ** 2).mean()
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            if given["update"] == "none":
                return (loss.detach(), *gradients)
            for number, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
                change = past[number].mul_(0.9).add_(gradient) if past else gradient
                weight.sub_(change, alpha=RATE)
        return (loss.detach(), h.detach()) if given["returns_output"] else (loss.detach(),)

    return inputs, run


def measured(module: fx.GraphModule, inputs: list[torch.Tensor]) -> int:
    """Most bytes of tensors at a time while the graph runs, its inputs included, as the profiler sees them."""
    with quiet(), torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = module(*inputs)
    now = most = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    del kept
    storages = [one.untyped_storage() for one in inputs]
    return most + sum({one._cdata: one.nbytes() for one in storages}.values())


def probe(case: Case, peak: Any) -> Evidence:
    """Ask for the peak of the step's graph."""
    module, _ = graph_of(case.parameters["step"])
    found = peak(module.graph)
    pair = isinstance(found, tuple | list) and len(found) == 2
    size, name = found if pair else (None, None)
    return Evidence(
        {
            "bytes": size if isinstance(size, int) and not isinstance(size, bool) else None,
            "node": str(name)[:LONGEST] if isinstance(name, str | fx.Node) else None,
            "named": isinstance(name, str),
        }
    )


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The answer, and what the profiler measures when the graph runs here."""
    module, inputs = graph_of(case.parameters["step"])
    counts = len([one for one in module.graph.nodes if one.op == "call_function"])
    size, node = evidence.values["bytes"], evidence.values["node"]
    said = "no whole number" if size is None else f"{size:,} bytes at {node}"
    return [
        f"{case.name}: {counts} operators, {len(tree_leaves(inputs))} inputs\n"
        f"  you say     {said}\n"
        f"  measured    {measured(module, inputs):,} bytes (with a few that operators need for Python numbers)"
    ]
