"""The judge's own insertion, and what the common mistakes make of the same graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.day5.insert_after.visible import FUNCTIONS, MODELS
from autograder.exercises.graph_comparison import difference, operations

MISCONCEPTIONS = {
    "returned no graph module": "Return the graph module that you changed.",
    "reads itself": (
        "The new node reads itself: `replace_all_uses_with` also replaced the use in the new node. Give the new node "
        "its argument after the replacement, or leave the new node out of it (`delete_user_cb`)."
    ),
    "malformed graph": (
        "In your graph a node is read before it is computed: insert the new node directly behind the one whose result "
        "it reads (`with graph.inserting_after(node):`). `graph.lint()` finds this."
    ),
    "forgot recompile": (
        "The graph has the new nodes, the module still runs the old code: call `graph_module.recompile()` at the end."
    ),
    "nobody reads it": "You inserted nodes that no one reads: the readers of the old node must read the new one.",
    "first reader only": (
        "One reader reads the new node, others still the old one. `node.users` is all of them, the output included."
    ),
    "plain arguments only": (
        "A reader that has the value in a list or by keyword still reads the old node. `replace_all_uses_with` or "
        "`replace_input_with` look everywhere."
    ),
    "first call only": "You treated one call of the function; there are more in the graph.",
    "replaced the call": "You put the new function in place of the old one: both must be there, one behind the other.",
    "something else": "Your graph computes something else than what was asked for.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Functions to insert that the visible cases do not."""
    functions = random.choices([name for name in FUNCTIONS if name not in ("exp", "tanh")], k=len(MODELS))
    return [
        Case(f"hidden {model}", {"model": model, "target": "exp", "function": function})
        for model, function in zip(MODELS, functions, strict=True)
    ]


Readers = Callable[[fx.Node, list[fx.Node]], list[fx.Node]]
"""Which of the users of a node are to read the new one."""


def expected(case: Case, readers: Readers = lambda node, users: users, first: bool = False) -> Any:
    """The case's graph with the insertion, where only some of the readers read the new node, or only the first call."""
    target, function = (FUNCTIONS[case.parameters[name]] for name in ("target", "function"))
    graph_module = fx.symbolic_trace(MODELS[case.parameters["model"]]())
    found = [node for node in own_nodes(graph_module) if node.op == "call_function" and node.target is target]
    for node in found[:1] if first else found:
        users = list(node.users)
        with graph_module.graph.inserting_after(node):
            new = graph_module.graph.call_function(function, (node,))
        for user in readers(node, users):
            user.replace_input_with(node, new)
    return graph_module


def replaced(case: Case) -> fx.GraphModule:
    """The case's graph with the new function in place of the old one."""
    graph_module = fx.symbolic_trace(MODELS[case.parameters["model"]]())
    for node in own_nodes(graph_module):
        if node.target is FUNCTIONS[case.parameters["target"]]:
            node.target = FUNCTIONS[case.parameters["function"]]
    return graph_module


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What the graph computes; if it is not right, which mistake computes that."""
    names = {"GraphModule": "", "loop": "reads itself", "malformed": "malformed graph"}
    if problem := names.get(evidence.values["returned"], "returned no graph module"):
        yield problem, evidence.values.get("text", "")
        return
    theirs, inputs = decode(evidence.graphs["graph"]), [torch.linspace(-1.3, 0.9, 12).reshape(3, 4)]
    wanted = expected(case)
    if different := difference(wanted, theirs, inputs, absolute=1e-6):
        mistakes = {
            "replaced the call": replaced(case),
            "nobody reads it": expected(case, lambda node, users: []),
            "first call only": expected(case, first=True),
            "plain arguments only": expected(case, lambda node, users: [user for user in users if node in user.args]),
            "first reader only": expected(case, lambda node, users: users[:1]),
        }
        same = (name for name, graph in mistakes.items() if not difference(graph, theirs, inputs, absolute=1e-6))
        yield next(same, "something else"), f"(what differs: {different})"
        return
    if operations(theirs) != operations(wanted):
        yield "something else", f"({operations(theirs)} operations, {operations(wanted)} wanted)"
        return
    if difference(wanted, decode(evidence.graphs["code"]), inputs, absolute=1e-6):
        yield "forgot recompile", ""
