"""What a graph computes: run by PyTorch's interpreter, in the judge."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.day0.run_graph.visible import build

MISCONCEPTIONS = {
    "asked PyTorch": "`torch.fx.Interpreter` does just this: write it yourself, with a loop over `graph.nodes`.",
    "called the module": (
        "You called the graph module. That runs the *code* that was written from its graph some time ago; this graph "
        "has changed since. Walk through `graph_module.graph.nodes`."
    ),
    "nodes instead of values": (
        "An operation got nodes where it needs values: arguments are nodes, also within lists and keywords. Look each "
        "up; `torch.fx.node.map_arg(node.args, function)` reaches all of them."
    ),
    "path taken for a name": (
        "A target such as `block.scale` is a path, and `getattr` takes one name. Follow the parts between the dots."
    ),
    "keywords dropped": "You left out `node.kwargs`: an operation gets its keyword arguments, too.",
    "last value returned": (
        "You returned the value of the last operation. What a graph returns stands in the arguments of its output node."
    ),
    "only one result": "The output node may hold a tuple: return all of it, in the same structure.",
    "inputs mixed up": "Placeholders take the inputs in the order in which they stand in the graph.",
    "no tensors": "Your function must return what the graph returns: a tensor, or a tuple of tensors.",
    "failed": "Your interpreter stopped with an error.",
    "wrong values": "These are not the values that the graph computes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Random steps; each case holds some that need care."""
    cases = []
    for number in range(4):
        steps = [random.choice(["keyword", "list"]), random.choice(["weight", "module"]), "two", "leaky"]
        steps += random.choices(["function", "method"], k=random.randint(1, 2))
        random.shuffle(steps)
        if steps.index("two") > 0 and "list" in steps[: steps.index("two")]:
            steps.remove("two")  # the second input has the width of the first, which a list doubles
        returned = random.randrange(len(steps) - 1) if number % 2 else -1
        parameters = {"steps": steps, "width": random.randint(2, 6), "seed": random.randrange(3, 2**31)}
        cases.append(Case(f"hidden {number}", parameters | {"returned": returned}))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    values = evidence.values
    if values["failed"]:
        yield _why_it_failed(values["failed"]), f"({values['failed']})"
        return
    if values["interpreted"]:
        yield "asked PyTorch", ""
        return
    found = [evidence.tensors[f"result{i}"] for i in range(len(evidence.tensors))]
    if not found:
        yield "no tensors", f"(found {values['kind']})"
        return
    graph_module, inputs = build(case)
    with torch.no_grad():
        wanted = _results(fx.Interpreter(graph_module).run(*inputs))
        if _same(found, wanted):
            structured = (values["kind"] in ("tuple", "list")) == (len(wanted) > 1)
            if not structured:
                yield "only one result", f"(found {values['kind']})"
            return
        yield _explain(found, wanted, graph_module, inputs), ""


def _results(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


def _same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(found) == len(wanted) and all(agrees(a, b, absolute=1e-6) for a, b in zip(found, wanted, strict=True))


def _why_it_failed(text: str) -> str:
    if "Node" in text or "immutable_list" in text:
        return "nodes instead of values"
    if text.startswith("AttributeError") and "block." in text:
        return "path taken for a name"
    if "missing" in text or "required" in text:
        return "keywords dropped"
    return "failed"


def _explain(
    found: list[torch.Tensor], wanted: list[torch.Tensor], graph_module: fx.GraphModule, inputs: list[torch.Tensor]
) -> str:
    if _same(found, _results(graph_module(*inputs))):
        return "called the module"
    last = _Recording(graph_module)
    last.run(*inputs)
    if len(found) == 1 and len(wanted) > 1 and _same(found, wanted[:1]):
        return "only one result"
    if _same(found, [last.values[-1]]):
        return "last value returned"
    for kind, name in ((_WithoutKeywords, "keywords dropped"), (fx.Interpreter, "inputs mixed up")):
        given = inputs if kind is _WithoutKeywords else inputs[::-1]
        try:
            if _same(found, _results(kind(graph_module).run(*given))):
                return name
        except (TypeError, RuntimeError):
            continue  # this mistake does not get to the end of this graph
    return "wrong values"


class _Recording(fx.Interpreter):
    """Keeps the value of every node but the output."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        self.values: list[Any] = []

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            self.values.append(value)
        return value


class _WithoutKeywords(fx.Interpreter):
    """Leaves out keyword arguments."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(target, args, {})
