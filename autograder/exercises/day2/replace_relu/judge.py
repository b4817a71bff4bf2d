"""What a right replacement is: the graph computes what the model with SiLU for ReLU would, writes included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of, own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import DRAWS, Composer, calls_of, once_a_case, written_cases
from autograder.exercises.day2.programs import build, program
from autograder.exercises.day2.replace_relu.visible import classes_of
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    stale,
    unusable,
)
from fxopt_core.graphs import is_operation, operation_name

MISCONCEPTIONS = COMMON | {
    "functions missed": (
        "A ReLU that is called as a function is left. `torch.relu` and `F.relu` are two different targets, and both "
        "count."
    ),
    "methods missed": "A ReLU that is called as a method is left: `call_method` with the target `'relu'`.",
    "modules missed": "A ReLU that is a module is left. The target of its node is a path; look at the class there.",
    "keyword missed": "A ReLU that takes its input by name (`relu(input=x)`) is left.",
    "in-place forms missed": (
        "A ReLU that works in place is left: `relu_`, `inplace=True` as an argument, or `nn.ReLU(inplace=True)`."
    ),
    "unread ones left": (
        "You left the ReLUs whose value nobody reads. One that works in place writes all the same, and every ReLU "
        "becomes a SiLU."
    ),
    "first paths only": (
        "You left a ReLU whose module lies at two paths. `named_modules()` names each module once, by the first of its "
        "paths. `graph_module.get_submodule(node.target)` finds it by either."
    ),
    "left a ReLU": "A ReLU is left that should have become a SiLU.",
    "lost the write": (
        "You replaced a ReLU that works in place by a SiLU that returns a new tensor. Whoever reads the written tensor "
        "afterwards still reads the old values. The new one must write, too (`F.silu(h, inplace=True)`)."
    ),
    "writes where none was": (
        "Your SiLU works in place where the ReLU did not. Whoever else reads the input now reads changed values."
    ),
    "went by the name": (
        "You replaced something that is no ReLU: `relu6`, the module `nn.ReLU6`, a `LeakyReLU`, or another module at a "
        "path called `relu`. Compare targets and classes, not parts of names."
    ),
    "changed the modules": (
        "You changed or exchanged a module of the model that the graph came from. Change the node, not the module: "
        "others may share it."
    ),
    "removed the modules": (
        "A module that the graph no longer calls is gone from the model. It may be called elsewhere: leave the modules "
        "as and where they are (no `delete_all_unused_submodules`, no `delete_submodule`)."
    ),
    "overwrote a module": (
        "You stored a module of your own at a path where the model already has another one, and that one is gone. Take "
        "a free name: go on while `hasattr(graph_module, name)`."
    ),
    "lost a SiLU": (
        "There are fewer SiLUs than there were ReLUs. A SiLU that works in place is needed even if nobody reads what "
        "it returns, because it writes: `eliminate_dead_code` does not know that."
    ),
    "left the old node": "The SiLU is there, but so is the old ReLU: erase it.",
    "left readers": (
        "The SiLU is there, but some nodes still read the old ReLU: those that hold it in a list or by keyword, and "
        "the output, which holds what it returns in a tuple. `replace_all_uses_with` finds them all."
    ),
    "more operations": "There are more operations than before. One SiLU takes the place of one ReLU.",
    "something else": "The graph computes something else than the model with SiLU for ReLU.",
}

UNNAMED = ("left a ReLU", "something else")
"""What says that an answer is not right, and names no mistake."""

FORMS = {
    "functions": ["torch.relu({0})", "F.relu({0})", "F.relu({0}, inplace=False)", "F.relu({0}, False)"],
    "methods": ["{0}.relu()", "({0} * 2).relu()"],
    "modules": ["self.act({0})", "self.block[1]({0})"],
    "keyword": [
        "F.relu(input={0})",
        "torch.relu(input={0})",
        "F.relu(inplace=False, input={0})",
        "self.act(input={0})",
    ],
}
WRITING = [
    "{0}.relu_()", "torch.relu_({0})", "F.relu({0}, inplace=True)", "F.relu_({0})", "self.inside({0})",
    "F.relu({0}, True)", "torch.relu_(input={0})", "F.relu(input={0}, inplace=True)",
]  # fmt: skip
OTHER = [
    "F.relu6({0} * 4)", "self.six({0} * 4)", "self.leaky({0})", "F.elu({0})", "torch.tanh({0})", "self.relu({0})",
    "torch.clamp({0}, min=0.0)", "{0}.sigmoid()", "F.silu({0})",
]  # fmt: skip
ACTS = {
    "act": "nn.ReLU()",
    "inside": "nn.ReLU(inplace=True)",
    "tanh": "nn.ReLU()",
    "relu": "nn.Tanh()",
    "block": "nn.Sequential(nn.Linear(4, 4), nn.ReLU())",
    "six": "nn.ReLU6()",
    "leaky": "nn.LeakyReLU(0.2)",
}

FIXED = """
== misleading names: forms
a = F.rrelu(x) + F.threshold(x, 0.0, 0.0) - x.prelu(torch.full((1,), 0.3))
return self.relu(x) + self.tanh(x) - self.relu(F.leaky_relu(x, 0.0)) + a

== other functions of one meaning: forms
return torch.clamp(x, min=0.0) + torch.maximum(x, torch.zeros(4)) - x.clamp_min(0.0) + F.hardtanh(x, 0.0) + x.relu()

== one module in place, called twice: forms
h = x * 2
g = self.inside(h)
self.inside(g)
return h - 1, g

== in place on a view: forms
h = x * 2
h[1:].relu_()
F.relu(h.t()[0], inplace=True)
return h, x

== in place, read before and after: forms
h = x - 1
a = h.cos()
torch.relu_(h)
b = h.cos()
return a - b, F.relu(a), h

== nobody reads it: forms
h = x * 2
torch.relu(h)
h.relu_()
return h

== in a list and several times: forms
a = torch.relu(x)
return [a, {"b": F.relu(a)}], torch.cat([a, a.relu(), torch.relu(a)]), a

== deep blocks: forms
return self.block(x)

== training: forms
return self.act(self.norm(x)) + F.dropout(x, 0.5, True).relu()

== double precision: forms
return torch.relu(x) - x.relu() + F.relu(x)

== no rows: forms
return torch.relu(x), self.act(x)

== no ReLU at all: forms
return F.silu(x)

== the flag by position: forms
h = x * 2
F.relu(h, True)
return F.relu(x, False) + x, h - x

== flags that say no: forms
h = x * 2
a = F.relu(h, inplace=False)
b = F.relu(h, False)
return h - a, b * h

== a method whose input is read again: forms
h = x - 1
a = h.relu()
return a + h * h, h

== functions and modules whose input is read again: forms
h = x - 1
a = torch.relu(h) - F.relu(h)
b = self.act(h)
return a + h * b, h

== the same write twice: forms
h = x - 1
h.relu_()
g = x.neg()
g.relu_()
h.sub_(0.5)
h.relu_()
return h, g

== writes whose input is given by name: forms
h = x - 1
g = x + 1
k = x * 2
torch.relu_(input=h)
F.relu(input=g, inplace=True)
self.inside(input=k)
return h, g.cos(), self.act(input=k - 1), k

== every form that writes: forms
a, b, c, d = x - 1, x - 2, x * 2, x * 3
e = x * 4
a.relu_()
torch.relu_(b)
F.relu(c, inplace=True)
self.inside(d)
F.relu_(e)
return a, b, c, d, e

== a write through an output that is read: forms
h = x - 1
g = h.relu_()
return g.cos(), h.t()

== names that are taken: forms
a = self.silu(x)
return self.act(a) - self.silu_1(a), torch.relu(x) * self.new

== modules that are nearly one: forms
return self.slope(x) + self.threshold(x) + self.tanh(x), self.hard(x) - self.celu(x)

== modules inside modules: forms
a = self.block.inner.act(x)
return a, self.block.inner.relu(a), self.block.act(x - 1)

== inputs and weights that are called like one: forms
return torch.relu(relu) + self.relu_, self.relu_ * relu

== one module at two paths: forms
h = x * 2
a = self.act(x) - self.act(x + 1)
self.inside(h)
b = h - 1
self.inside(b)
return a, h, b, self.tanh(a) - self.tanh(h)

== a draw beside it: forms
a = F.dropout(x, 0.5, True).relu()
return a + torch.rand_like(a), F.relu(F.rrelu(x, training=True))
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "deep blocks": {"state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.ReLU6()))"}},
    "training": {"state": ACTS | {"norm": "nn.BatchNorm1d(4)"}, "training": True},
    "double precision": {"inputs": (([4, 4], "float64"),)},
    "no rows": {"inputs": ([0, 4],)},
    "names that are taken": {
        "state": {"act": "nn.ReLU()", "silu": "nn.Tanh()", "silu_1": "nn.Sigmoid()", "new": "torch.rand(4)"}
    },
    "modules that are nearly one": {
        "state": {
            "slope": "nn.LeakyReLU(0.0)",
            "threshold": "nn.Threshold(0.0, 0.0)",
            "hard": "nn.Hardtanh(0.0, 9.0)",
            "celu": "nn.CELU()",
            "tanh": "nn.ReLU()",
        }
    },
    "the flag by position": {"positional": True},
    "inputs and weights that are called like one": {
        "arguments": "relu",
        "state": {"relu_": "torch.rand(4, 4)"},
    },
    "one module at two paths": {"paths": {"act_1": "again", "inside_1": "blocks.0", "tanh_1": "relu"}},
    "modules inside modules": {
        "state": {
            "block": "nn.ModuleDict({'inner': nn.ModuleDict({'act': nn.ReLU(), 'relu': nn.Tanh()}), 'act': nn.ReLU()})"
        },
    },
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """Each form among others, forms that write with a later reader, a case for each class, then random programs."""
    bodies = {}
    for name, forms in FORMS.items():
        inner, outer = random.choice(OTHER).format("x"), random.choice(forms).format("h")
        shift = random.uniform(0.1, 0.5)
        bodies[name] = f"h = {inner} - {shift:.3f}\nreturn {outer} + {random.choice(forms).format('x')}"
    first, second = random.sample(WRITING, 2)
    bodies["in place"] = f"h = x * 2\ng = h.view(-1)\n{first.format('h')}\n{second.format('x')}\nreturn g, h - 1"
    bodies["look-alikes"] = f"return {' + '.join(form.format('x') for form in OTHER)} - F.relu(x)"
    drawn = [
        program(f"hidden {name}", body, state=ACTS, trap="forms", seed=random.randrange(2**31))
        for name, body in bodies.items()
    ]
    fixed = written_cases(FIXED, MORE, state=ACTS)
    return [*drawn, *fixed, *(composed(random, number) for number in range(3))]


def composed(random: Random, number: int = 0) -> Case:
    """A random program: every form among what only looks like it, forms that write, draws, dead ends."""
    composer = Composer(random, ("x", "y"))
    composer.state |= ACTS
    every = [form for forms in FORMS.values() for form in forms]
    for _ in range(random.randint(6, 10)):
        kind = random.random()
        if kind < 0.4:
            composer.let(composer.fill(every))
        elif kind < 0.6:
            composer.do(composer.fill(WRITING, composer.let(f"torch.sin({composer.pick()})")))
        elif kind < 0.8:
            composer.let(composer.fill(OTHER))
        elif kind < 0.85:
            composer.let(composer.fill(DRAWS))
        else:
            composer.compute()
    returned = ", ".join(random.sample(composer.values, 3))
    return composer.case(f"hidden mixture {number}", f"{returned}, x - 1", training=random.random() < 0.3, trap="forms")


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


Form = tuple[str, str, bool, str]
"""Of a ReLU: the node's `op`, what it is called, whether it works in place, and how it is told: `name` or `position`
for the input or flag that is given so, `""` for a flag by name or none."""


def form_of(node: fx.Node) -> Form | None:
    """In which form a node is a ReLU; `None` for what is no ReLU."""
    writes = works_in_place(node) if node.op.startswith("call") else None
    if writes is None:
        return None
    how = "position" if len(node.args) > 1 else "" if node.args else "name"
    if node.op == "call_function":
        told = "torch.relu" if node.target is torch.relu else "F.relu" if node.target is nn.functional.relu else "relu_"
    else:
        told = "nn.ReLU" if node.op == "call_module" else str(node.target)
    return node.op, told, writes, how


Which = Callable[[Form], bool]

LEFT: dict[str, tuple[Which, ...]] = {
    "functions missed": (
        lambda form: form[1] == "torch.relu",
        lambda form: form[1] == "F.relu",
        lambda form: form[1] == "F.relu" and not form[2],
        lambda form: form[0] == "call_function" and not form[2],
        lambda form: form[0] == "call_function",
    ),
    "methods missed": (
        lambda form: form[0] == "call_method",
        lambda form: form[0] == "call_method" and not form[2],
    ),
    "modules missed": (
        lambda form: form[0] == "call_module",
        lambda form: form[0] == "call_module" and not form[2],
    ),
    "keyword missed": (
        lambda form: form[3] == "name",
        lambda form: form[3] == "name" and not form[2],
        lambda form: form[3] == "name" and form[0] == "call_function",
        lambda form: form[3] == "name" and form[0] == "call_module",
    ),
    "in-place forms missed": (
        lambda form: form[2],
        lambda form: form[1] in ("relu_",),
        lambda form: form[2] and form[1] == "F.relu",
        lambda form: form[2] and form[0] == "call_module",
        lambda form: form[2] and form[0] == "call_method",
        lambda form: form[2] and form[0] == "call_function",
    ),
}
"""Of each mistake which forms it leaves, in each way in which it can be made."""

OTHERWISE: dict[str, tuple[Which, ...]] = {
    "lost the write": (
        lambda form: form[2],
        lambda form: form[2] and form[1] == "F.relu",
        lambda form: form[2] and form[3] == "position",
        lambda form: form[2] and form[1] == "relu_",
        lambda form: form[2] and form[0] == "call_method",
        lambda form: form[2] and form[0] == "call_module",
        lambda form: form[2] and form[0] != "call_module",
        lambda form: form[2] and form[0] == "call_function",
    ),
    "writes where none was": (
        lambda form: not form[2],
        lambda form: not form[2] and form[0] == "call_function",
        lambda form: not form[2] and form[0] == "call_method",
        lambda form: not form[2] and form[0] == "call_module",
        lambda form: not form[2] and form[3] == "position",
    ),
}
"""Of each mistake for which forms it confuses whether they work in place, in each way in which it can be made."""


def _never(form: Form) -> bool:
    return False


def replaced(graph_module: fx.GraphModule, confused: Which = _never) -> fx.GraphModule:
    """The judge's own replacement, in place; `confused` says for which forms a SiLU writes if the ReLU did not."""
    for node in own_nodes(graph_module):
        if (form := form_of(node)) is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph_module.graph.inserting_before(node):
            keywords: dict[str, Any] = {"inplace": form[2] != confused(form)}
            new = graph_module.graph.call_function(nn.functional.silu, (value,), keywords)
        node.replace_all_uses_with(new)
        graph_module.graph.erase_node(node)
    return graph_module


def _forms(graph_module: fx.GraphModule) -> Counter[Form]:
    return Counter(form for node in all_nodes(graph_module) if (form := form_of(node)) is not None)


def _at_second_paths(graph_module: fx.GraphModule) -> Counter[Form]:
    """The ReLUs that are a module which has an earlier path, too."""
    first = dict(graph_module.named_modules())
    calls = (node for node in own_nodes(graph_module) if node.op == "call_module" and node.target not in first)
    return Counter(form for node in calls if (form := form_of(node)) is not None)


def _some(forms: Mapping[Form, int], which: Which) -> Counter[Form]:
    return Counter({form: count for form, count in forms.items() if which(form)})


@once_a_case
def _wanted(case: Case) -> dict[str, Any]:
    return own_behaviour(replaced(build(case)), calls_of(case))


@once_a_case
def _confused(case: Case) -> dict[str, list[dict[str, Any]]]:
    """What a caller sees of each mistake that shows in this case, in each way in which it can be made."""
    forms, found = _forms(build(case)), {}
    for name, ways in OTHERWISE.items():
        tried = {frozenset(some): way for way in ways if (some := _some(forms, way))}
        seen = [own_behaviour(replaced(build(case), way), calls_of(case)) for way in tried.values()]
        found[name] = [one for one in seen if first_difference(_wanted(case), one, absolute=1e-6)]
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Which ReLUs are left, then what the graph computes, and which mistakes would have given just that."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    size, forms, left = len(own_nodes(original)), _forms(original), _forms(theirs)
    unread = Counter(form for node in all_nodes(original) if not node.users and (form := form_of(node)) is not None)
    second = _at_second_paths(original)
    more = _silus(theirs) - _silus(original)
    before, after = _classes(original), _classes(theirs)
    for path in sorted(before.keys() & after.keys()):
        if before[path] != after[path]:
            name = "changed the modules" if before[path] == "ReLU" else "overwrote a module"
            yield name, f"({path!r} was a {before[path]}, and is a {after[path]})"
            return
    if more > forms.total():
        yield "went by the name", f"(ReLUs before: {forms.total()}; SiLUs that came: {more})"
        return
    if left and more == forms.total():
        read = any(node.users for node in all_nodes(theirs) if form_of(node) is not None)
        # Where nobody reads a SiLU, no reader was changed at all: that is no matter of lists.
        read = read and any(node.users for node in all_nodes(theirs) if _is_silu(node))
        yield ("left readers" if read else "left the old node"), f"(left: {_told(left)})"
        return
    if left:
        fits = tuple(name for name, ways in LEFT.items() if any(left == _some(forms, way) for way in ways))
        fits += ("unread ones left",) * (left == unread) + ("first paths only",) * (left == second)
        yield Deviation("left a ReLU", fits, f"(left: {_told(left)})", size)
        return
    shown = tuple(name for name, ways in LEFT.items() if all(_some(forms, w) for w in ways))
    shown += ("unread ones left",) * bool(unread) + ("first paths only",) * bool(second)
    yield Agreement("left a ReLU", shown)
    found = behaviour(theirs, calls_of(case))
    if different := first_difference(_wanted(case), found, absolute=1e-6):
        gone = _others(original) - _others(theirs)
        if gone:
            yield "went by the name", f"(gone: {', '.join(sorted(gone))})"
            return
        if more < forms.total() and not _others(theirs) - _others(original):
            yield "lost a SiLU", f"(ReLUs before: {forms.total()}; SiLUs that came: {more})"
            return
        fits = tuple(
            name
            for name, ways in _confused(case).items()
            if any(not first_difference(one, found, absolute=1e-6) for one in ways)
        )
        yield Deviation("something else", fits, f"({different})", size)
        return
    whole = (name for name, ways in OTHERWISE.items() if len(_confused(case)[name]) == len(ways))
    yield Agreement("something else", tuple(whole))
    if evidence.values["classes"] != classes_of(case):
        yield "changed the modules", ""
        return
    if evidence.values["gone"]:
        yield "removed the modules", f"({', '.join(evidence.values['gone'])})"
        return
    if changed := changed_modules(original, theirs):
        yield "changed the model", f"({changed})"
        return
    if operations(theirs) > operations(original):
        yield "more operations", f"({operations(original)} operations before, {operations(theirs)} after)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _told(forms: Counter[Form]) -> str:
    kinds = {"call_function": "function", "call_method": "method", "call_module": "module"}
    return ", ".join(f"the {kinds[op]} {name}{' in place' if writes else ''}" for op, name, writes, _ in sorted(forms))


def _others(graph_module: fx.GraphModule) -> Counter[str]:
    """The operations that are neither ReLU nor SiLU, by name."""
    calls = (node for node in all_nodes(graph_module) if is_operation(node) and form_of(node) is None)
    return Counter(name for node in calls if (name := operation_name(node)) not in ("silu", "SiLU"))


def _classes(graph_module: fx.GraphModule) -> dict[str, str]:
    """The class of each module that is called, by its path."""
    return {str(n.target): type(module_of(n)).__name__ for n in all_nodes(graph_module) if n.op == "call_module"}


def _silus(graph_module: fx.GraphModule) -> int:
    """How many nodes are a SiLU, as a function or as a module."""
    return sum(map(_is_silu, all_nodes(graph_module)))


def _is_silu(node: fx.Node) -> bool:
    return is_operation(node) and operation_name(node) in ("silu", "SiLU")
