"""What a right replacement is: the graph computes what the model with SiLU for ReLU would, writes included."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of, own_nodes
from autograder.exercises.composed import calls_of, written_cases
from autograder.exercises.day2.programs import build, program
from autograder.exercises.day2.replace_relu.visible import classes_of
from autograder.exercises.graph_comparison import (
    COMMON,
    Difference,
    behaviour,
    first_difference,
    operations,
    own_behaviour,
    stale,
    unusable,
)
from fxopt_core.graphs import is_operation, operation_name

MISCONCEPTIONS = COMMON | {
    "functions missed": "A ReLU that is called as a function is left: `torch.relu` and `F.relu` are two targets.",
    "methods missed": "A ReLU that is called as a method is left: `call_method` with the target `'relu'`.",
    "modules missed": "A ReLU that is a module is left. The target of its node is a path; look at the class there.",
    "keyword missed": "A ReLU that takes its input by name (`relu(input=x)`) is left, or has lost it.",
    "in-place forms missed": (
        "A ReLU that works in place is left: `relu_`, `inplace=True` as an argument, or `nn.ReLU(inplace=True)`."
    ),
    "lost the write": (
        "You replaced a ReLU that works in place by a SiLU that returns a new tensor. Whoever reads the written tensor "
        "afterwards now reads the old values: the new one must write, too (`F.silu(h, inplace=True)`)."
    ),
    "writes where none was": (
        "Your SiLU works in place where the ReLU did not: whoever else reads the input now reads changed values."
    ),
    "went by the name": (
        "You replaced something that is no ReLU: `relu6`, the module `nn.ReLU6`, a `LeakyReLU`, or another module at a "
        "path called `relu`. Compare targets and classes, not parts of names."
    ),
    "changed the modules": (
        "You changed or exchanged a module of the model that the graph came from. Change the node, not the module: "
        "others may share it."
    ),
    "left the old node": "The old ReLU is still in the graph, though nobody reads it: erase it.",
    "something else": "The graph computes something else than the model with SiLU for ReLU.",
}

MISSED = {
    "functions": "functions missed",
    "methods": "methods missed",
    "modules": "modules missed",
    "keyword": "keyword missed",
    "in place": "in-place forms missed",
    "in place, by flag": "in-place forms missed",
    "look-alikes": "functions missed",
}

FORMS = {
    "functions": ["torch.relu({})", "F.relu({})", "F.relu({}, inplace=False)"],
    "methods": ["{}.relu()", "({} * 2).relu()"],
    "modules": ["self.act({})", "self.block[1]({})"],
    "keyword": ["F.relu(input={})", "torch.relu(input={})"],
}
WRITING = ["{}.relu_()", "torch.relu_({})", "F.relu({}, inplace=True)", "F.relu_({})", "self.inside({})"]
OTHER = ["F.relu6({} * 4)", "self.six({} * 4)", "self.leaky({})", "F.elu({})", "torch.tanh({})", "self.relu({})"]


ACTS = {"act": "nn.ReLU()", "inside": "nn.ReLU(inplace=True)", "tanh": "nn.ReLU()", "relu": "nn.Tanh()"}

FIXED = """
== misleading names: look-alikes
return self.relu(x) + self.tanh(x) - self.relu(F.leaky_relu(x, 0.0)) + F.rrelu(x) + F.threshold(x, 0.0, 0.0)

== other functions of one meaning: look-alikes
return torch.clamp(x, min=0.0) + torch.maximum(x, torch.zeros(4)) - x.clamp_min(0.0) + F.hardtanh(x, 0.0) + x.relu()

== one module in place, called twice: in place
h = x * 2
g = self.inside(h)
self.inside(g)
return h - 1, g

== in place on a view: in place
h = x * 2
h[1:].relu_()
F.relu(h.t()[0], inplace=True)
return h, x

== in place, read before and after: in place
h = x - 1
a = h.cos()
torch.relu_(h)
b = h.cos()
return a - b, F.relu(a), h

== nobody reads it: in place
h = x * 2
torch.relu(h)
h.relu_()
return h

== in a list and several times: functions
a = torch.relu(x)
return [a, {"b": F.relu(a)}], torch.cat([a, a.relu(), torch.relu(a)]), a

== deep blocks: modules
return self.block(x)

== training: modules
return self.act(self.norm(x)) + F.dropout(x, 0.5, True).relu()

== double precision: functions
return torch.relu(x) - x.relu() + F.relu(x)

== no rows: functions
return torch.relu(x), self.act(x)

== no ReLU at all: look-alikes
return F.silu(x)
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "deep blocks": {"state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.ReLU6()))"}},
    "training": {"state": ACTS | {"norm": "nn.BatchNorm1d(4)"}, "training": True},
    "double precision": {"inputs": (([4, 4], "float64"),)},
    "no rows": {"inputs": ([0, 4],), "state": ACTS},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """Each form among others, forms that write with a later reader, and look-alikes."""
    state = {
        "act": "nn.ReLU()",
        "block": "nn.Sequential(nn.Linear(4, 4), nn.ReLU())",
        "inside": "nn.ReLU(inplace=True)",
        "six": "nn.ReLU6()",
        "leaky": f"nn.LeakyReLU({random.choice([0.1, 0.2, 0.4])})",
        "relu": "nn.Tanh()",
    }
    bodies = {}
    for trap, forms in FORMS.items():
        inner, outer = random.choice(OTHER).format("x"), random.choice(forms).format("h")
        bodies[trap] = (
            f"h = {inner} - {random.uniform(0.1, 0.5):.3f}\nreturn {outer} + {random.choice(forms).format('x')}"
        )
    first, second = random.sample(WRITING, 2)
    bodies["in place"] = f"h = x * 2\ng = h.view(-1)\n{first.format('h')}\n{second.format('x')}\nreturn g, h - 1"
    bodies["look-alikes"] = f"return {' + '.join(form.format('x') for form in OTHER)} - F.relu(x)"
    drawn = [
        program(f"hidden {trap}", body, state=state, trap=trap, seed=random.randrange(2**31))
        for trap, body in bodies.items()
    ]
    names = [line.removeprefix("== ").rpartition(": ")[0] for line in FIXED.splitlines() if line.startswith("== ")]
    return [*drawn, *written_cases(FIXED, {name: {"state": ACTS} | MORE.get(name, {}) for name in names})]


def works_in_place(node: fx.Node) -> bool | None:
    """Whether a node is a ReLU that works in place; `None` for what is no ReLU."""
    if node.op == "call_module":
        module = module_of(node)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(str(node.target))
    if node.target in (torch.relu_, nn.functional.relu_):
        return True
    if node.target in (torch.relu, nn.functional.relu):
        return bool(node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False))
    return None


def replaced(graph_module: fx.GraphModule, *, write: bool | None = None) -> fx.GraphModule:
    """The judge's own replacement, in place. `write` says whether all SiLUs are to work in place."""
    for node in own_nodes(graph_module):
        in_place = works_in_place(node) if node.op.startswith("call") else None
        if in_place is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph_module.graph.inserting_before(node):
            keywords: dict[str, Any] = {"inplace": in_place if write is None else write}
            new = graph_module.graph.call_function(nn.functional.silu, (value,), keywords)
        node.replace_all_uses_with(new)
        graph_module.graph.erase_node(node)
    return graph_module


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What the graph computes; if it is not right, which mistake computes that."""
    if problem := unusable(evidence):
        yield problem
        return
    trap, theirs = case.parameters["trap"], decode(evidence.graphs["graph"])
    found = behaviour(theirs, calls_of(case))
    different = _differs(replaced(build(case)), found, case)
    if different:
        left = any(works_in_place(n) is not None for n in all_nodes(theirs) if n.op.startswith("call"))
        if not _differs(replaced(build(case), write=False), found, case):
            kind = "lost the write"
        elif not _differs(replaced(build(case), write=True), found, case):
            kind = "writes where none was"
        elif _silus(theirs) > _silus(replaced(build(case))) or (trap == "look-alikes" and not left):
            kind = "went by the name"
        else:
            kind = MISSED[trap] if left else "something else"
        yield kind, f"({different})"
        return
    if evidence.values["classes"] != classes_of(case):
        yield "changed the modules", ""
        return
    if operations(theirs) > operations(build(case)):
        yield "left the old node", f"({operations(build(case))} operations before, {operations(theirs)} after)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _silus(graph_module: fx.GraphModule) -> int:
    """How many nodes are a SiLU, as a function or as a module."""
    names = (operation_name(node) for node in all_nodes(graph_module) if is_operation(node))
    return sum(name in ("silu", "SiLU") for name in names)


def _differs(wanted: fx.GraphModule, found: dict[str, Any], case: Case) -> Difference | None:
    """The first difference in several calls, gradients included, if any."""
    return first_difference(own_behaviour(wanted, calls_of(case)), found, absolute=1e-6)
