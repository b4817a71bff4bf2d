"""The judge's own insertion, and what the common mistakes make of the same graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import EncodedGraph, decode, encode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day2.programs import build, program
from autograder.exercises.day5.insert_after.visible import FUNCTIONS, MODELS
from autograder.exercises.graph_comparison import Calls, behaviour, first_difference, operations, own_behaviour
from fxopt_core.graphs import is_operation, operation_name

MISCONCEPTIONS = {
    "returned no graph module": "Return the graph module that you changed.",
    "reads itself": (
        "The new node reads itself: `replace_all_uses_with` also replaced the use in the new node. Give the new node "
        "its argument after the replacement, or leave the new node out of it (`delete_user_cb`)."
    ),
    "calls something else": (
        "Your graph calls something of your own, or what a graph cannot hold. A new node calls `function` itself, with "
        "the old node as its argument: `graph.call_function(function, (node,))`."
    ),
    "malformed graph": (
        "In your graph a node is read before it is computed: insert the new node directly behind the one whose result "
        "it reads (`with graph.inserting_after(node):`). `graph.lint()` finds this."
    ),
    "forgot recompile": (
        "The graph has the new nodes, the module still runs the old code: call `graph_module.recompile()` at the end."
    ),
    "given one left behind": (
        "You changed the graph of the module that you were given, and handed back another module. The given one still "
        "runs its old code. Call `graph_module.recompile()` and return that one, or work on a `copy.deepcopy`."
    ),
    "nobody reads it": "You inserted nodes that no one reads: the readers of the old node must read the new one.",
    "first reader only": (
        "One reader reads the new node, others still the old one. `node.users` is all of them, the output included."
    ),
    "plain arguments only": (
        "A reader that has the value in a list, a dictionary or a slice, or by keyword, still reads the old node. "
        "`replace_all_uses_with` or `replace_input_with` look everywhere."
    ),
    "output left out": "The output still returns the old value: the output is a node, and reads like any other one.",
    "first call only": "You treated one call of the function; there are more in the graph.",
    "only what is read": (
        "You left out a call whose result nobody reads. The task says every call: the new node stands behind that one, "
        "too."
    ),
    "compared names": (
        "You also inserted behind calls of something else that has the same name: a method (`x.neg()`), or Python's "
        "operator (`-x`). A `call_function` node's target is the function itself: compare with `is`, and look at "
        "`node.op`."
    ),
    "replaced the call": "You put the new function in place of the old one: both must be there, one behind the other.",
    "not directly behind": (
        "Your new node comes later than the task says: put it directly behind the call, and not in front of whoever "
        "reads it."
    ),
    "something else": "Your graph computes something else than what was asked for.",
}

FIXED: dict[str, tuple[str, str, str]] = {
    "nobody reads it": ("exp", "sin", "torch.exp(x * 2)\nh = torch.exp(x)\ng = x - 1\nreturn torch.sin(h).cos() * g"),
    "a method of that name": ("exp", "neg", "return torch.exp(x) + x.exp() * (x * 2).exp()"),
    "an operator of that name": ("neg", "exp", "h = -x\nreturn torch.neg(h) - (-h)"),
    "the operator, not the function": ("operator.neg", "cos", "h = -x\nreturn torch.neg(h) - (-h)"),
    "a layer of that name": ("cos", "sin", "return self.cos(torch.cos(x)) - self.cos(x)"),
    "in lists and dictionaries": (
        "exp",
        "tanh",
        "h = torch.exp(x)\ng = torch.exp(h)\n"
        "return {'a': [h, (g, {'d': h})], 'b': torch.stack([h, g, h]), 'c': h[:, 1:]}",
    ),
    "twice in one call": ("exp", "sin", "h = torch.exp(x)\nreturn torch.add(h, h, alpha=2), torch.where(h > 1, h, -h)"),
    "the same call twice": ("exp", "sin", "g = torch.exp(x)\nh = torch.exp(x)\nreturn g * h.cos(), h"),
    "called by keyword": (
        "exp",
        "tanh",
        "h = torch.exp(input=x)\nreturn torch.clamp(input=h, max=h.mean()), torch.cat(tensors=[x, h], dim=1)",
    ),
    "in every part of a slice": (
        "add",
        "abs",
        "h = torch.add((x[0, 0] * 0).long(), 1, alpha=-2)\nreturn x[h:], x[:h], x[:, ::h]",
    ),
    "the result is an index": (
        "neg",
        "abs",
        "h = torch.neg(torch.arange(-3, 1))\nreturn x[:, h], x.index_select(1, torch.neg(torch.neg(h)))",
    ),
    "the inserted function is the one looked for": ("exp", "exp", "return torch.exp(torch.exp(x) - 3)"),
    "written afterwards": ("sin", "cos", "h = torch.sin(x)\ng = h * 2\nh.mul_(3)\nreturn h - g"),
    "nothing to insert, and old code": ("exp", "sin", "return torch.tanh(x) * 2"),
    "many in a row": ("sin", "tanh", "for _ in range(12):\n    x = torch.sin(x) + x\nreturn x"),
}
"""By name what is looked for, what is inserted, and the lines of the program; the same for every seed."""

STATE = {"cos": "nn.Tanh()"}


def hidden_cases(random: Random) -> list[Case]:
    """A case for each way to write calls and readers, and functions that the visible cases do not have."""
    functions = random.choices([name for name in FUNCTIONS if name in ("sin", "neg", "abs", "cos")], k=3)
    models = [name for name in MODELS if name != "spelled"]
    drawn = [
        Case(f"hidden {model}", {"model": model, "target": "exp", "function": function})
        for model, function in zip(models, functions, strict=True)
    ]
    return [*drawn, *(_fixed(name, *given) for name, given in FIXED.items())]


def _fixed(name: str, target: str, function: str, body: str) -> Case:
    state = {key: made for key, made in STATE.items() if f"self.{key}" in body}
    graph = encode(build(program(name, body, state=state, inputs=([3, 4],))))
    given = {"target": target, "function": function, "graph": graph.document, "old code": "old code" in name}
    return Case(f"hidden {name}", given, graph.tensors)


Readers = Callable[[fx.Node, list[fx.Node]], list[fx.Node]]
"""Which of the users of a node are to read the new one."""


def graph_of(case: Case) -> fx.GraphModule:
    """The graph of a case, which the judge may run."""
    if "graph" in case.parameters:
        return decode(EncodedGraph(case.parameters["graph"], case.tensors), ours=True)
    return fx.symbolic_trace(MODELS[case.parameters["model"]]())


def _named(node: fx.Node, target: Any) -> bool:
    """Whether a node calls something of the same name."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return node.op.startswith("call") and name == target.__name__


def expected(
    case: Case,
    readers: Readers = lambda node, users: users,
    calls: Callable[[list[fx.Node]], list[fx.Node]] = lambda found: found,
    names: bool = False,
) -> fx.GraphModule:
    """The case's graph with the insertion.

    Args:
        case: the case.
        readers: which readers read the new node.
        calls: which of the calls get one.
        names: whether whatever has the name of the function counts as a call of it.
    """
    target, function = (FUNCTIONS[case.parameters[name]] for name in ("target", "function"))
    graph_module = graph_of(case)
    found = [
        node
        for node in own_nodes(graph_module)
        if (node.op == "call_function" and node.target is target) or (names and _named(node, target))
    ]
    for node in calls(found):
        users = list(node.users)
        with graph_module.graph.inserting_after(node):
            new = graph_module.graph.call_function(function, (node,))
        for user in readers(node, users):
            user.replace_input_with(node, new)
    return graph_module


def replaced(case: Case) -> fx.GraphModule:
    """The case's graph with the new function in place of the old one."""
    graph_module = graph_of(case)
    for node in own_nodes(graph_module):
        if node.op == "call_function" and node.target is FUNCTIONS[case.parameters["target"]]:
            node.target = FUNCTIONS[case.parameters["function"]]
    return graph_module


MISTAKES: dict[str, Callable[[Case], fx.GraphModule]] = {
    "replaced the call": replaced,
    "nobody reads it": lambda case: expected(case, lambda node, users: []),
    "first call only": lambda case: expected(case, calls=lambda found: found[:1]),
    "only what is read": lambda case: expected(case, calls=lambda found: [node for node in found if node.users]),
    "plain arguments only": lambda case: expected(
        case, lambda node, users: [user for user in users if node in user.args]
    ),
    "first reader only": lambda case: expected(case, lambda node, users: users[:1]),
    "output left out": lambda case: expected(case, lambda node, users: [user for user in users if user.op != "output"]),
    "compared names": lambda case: expected(case, names=True),
}
"""What each mistake makes of the same graph."""


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What the graph computes; if it is not right, which mistake computes that."""
    names = {
        "GraphModule": "",
        "loop": "reads itself",
        "malformed": "malformed graph",
        "foreign": "calls something else",
    }
    if problem := names.get(evidence.values["returned"], "returned no graph module"):
        yield problem, evidence.values.get("text", "")
        return
    theirs, wanted = decode(evidence.graphs["graph"]), expected(case)
    calls = Calls([[torch.linspace(-1.3, 0.9, 12).reshape(3, 4)]] * 2)
    found = behaviour(theirs, calls)
    different = _differs(wanted, theirs, found, calls)

    def shown(names: Collection[str]) -> list[str]:
        return [name for name in names if _differs(MISTAKES[name](case), theirs, found, calls)]

    if different:
        fits = tuple(sorted(MISTAKES.keys() - shown(MISTAKES)))
        yield Deviation("something else", fits, f"({different})", len(own_nodes(wanted)))
        return
    yield Agreement("something else", shown)
    if (order := _in_order(theirs)) != (right := _in_order(wanted)):
        yield "not directly behind", f"(found {', '.join(order)}; wanted {', '.join(right)})"
    code = behaviour(decode(evidence.graphs["code"]), calls)
    if first_difference(own_behaviour(wanted, calls), code, absolute=1e-6):
        yield "forgot recompile", ""
        return
    if left := _left_behind(case, evidence):
        yield "given one left behind", left


def _left_behind(case: Case, evidence: Evidence) -> str:
    """What says that the given module has a changed graph and old code, where another module was returned."""
    if fails := evidence.values.get("given fails"):
        return f"(it no longer runs: {fails})"
    if "given" not in evidence.graphs:
        return ""
    says, runs = (_in_order(decode(evidence.graphs[name])) for name in ("given", "given code"))
    if says in (runs, _in_order(graph_of(case))):
        return ""
    return f"(its graph says {', '.join(says)}; it runs {', '.join(runs) or 'nothing'})"


def _in_order(graph_module: fx.GraphModule) -> list[str]:
    """The names of a graph's operations, the first first."""
    return [operation_name(node) for node in own_nodes(graph_module) if is_operation(node)]


def _differs(wanted: fx.GraphModule, theirs: fx.GraphModule, found: dict[str, Any], calls: Calls) -> str:
    """What two graphs do otherwise, in words; their operations count, too, where nobody reads them.

    Args:
        wanted: a graph of the judge's. What a mistake makes of a case may not run.
        theirs: the learner's.
        found: what that one does in these calls.
        calls: how both are called.
    """
    if different := first_difference(own_behaviour(wanted, calls), found, absolute=1e-6):
        return str(different)
    if operations(theirs) != operations(wanted):
        return f"{operations(theirs)} operations, {operations(wanted)} wanted"
    return ""
