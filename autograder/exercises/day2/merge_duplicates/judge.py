"""What may be merged is merged, and nothing else: the graph does the same with as few operations as can be."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import DRAWS, WRITES, Composer, once_a_case, original_of, written_cases
from autograder.exercises.day2.programs import inputs_of
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
from autograder.exercises.seen_effects import Seen, seen_effects
from fxopt_core.graphs import is_operation

MISCONCEPTIONS = COMMON | {
    "nothing merged": "Two nodes that compute the same from the same are still two.",
    "left the duplicate": (
        "The duplicate is still there, though nobody reads it: after `replace_all_uses_with`, erase it."
    ),
    "first level only": (
        "You merged two equal nodes, but not the two nodes that became equal by that. Compare arguments *after* what "
        "they stand for was merged, in one walk along the graph."
    ),
    "order of keywords": (
        "`f(min=0, max=1)` and `f(max=1, min=0)` are the same call; your key depends on the order of the keywords."
    ),
    "lists not compared": (
        "Two equal calls that hold their values in a list are still two: look into lists, and let a merged node count "
        "as its stand-in there, too."
    ),
    "slices not compared": (
        "Two equal calls whose arguments hold a slice are still two: `x[1:n]` holds a `slice`, whose parts may be "
        "nodes."
    ),
    "one module twice": "The same module, called twice on the same value in evaluation mode, gives the same: merge it.",
    "methods not merged": "Two equal calls of a method are still two: a method is a call like any other.",
    "functions not merged": "Two equal calls of a function are still two.",
    "forgot too often": (
        "Two equal nodes are still two, though nothing was written between them: an assertion or a draw changes no "
        "value that was computed before it."
    ),
    "merged too little": "Two nodes that compute the same from the same, with nothing between them, are still two.",
    "compared modules by class": (
        "You merged calls of two different modules. Two `Linear` have two weights: what a `call_module` node calls is "
        "the module at its path, not its class."
    ),
    "ignored keywords": "You merged two calls with different keyword arguments: `dim=0` is not `dim=1`.",
    "equal literals": (
        "You merged `x + 1`, `x + 1.0` or `x + True`. Python says `1 == 1.0 == True`, and a dictionary takes them for "
        "one key; the dtype of the result says otherwise. Put the type into the key (and mind `0.0` and `-0.0`)."
    ),
    "lists are no tuples": (
        "You merged `x[[0, 1]]` and `x[0, 1]`: the first holds a list (two rows), the second a tuple (one element). "
        "Which kind of container an argument is belongs into the key."
    ),
    "merged two draws": "You merged two random draws: they are two different values, and each moves the random stream.",
    "merged an effect": (
        "You merged two calls that do something besides computing, such as two equal assertions: what has an effect "
        "(`effects_of(node).observable`) stays as often as it is there."
    ),
    "merged in training": (
        "You merged two calls of a module in training: each call updates its statistics, so that one is not two."
    ),
    "merged across a write": (
        "You merged two equal expressions between which their input was written, perhaps through a view. The same "
        "expression of another content is another value."
    ),
    "merged across a switch": (
        "You merged two equal expressions between which a mode was switched (gradients, autocast): in another mode the "
        "same expression has another dtype, or no gradient. `effects_of(node).context` knows the switches."
    ),
    "merged across the unknown": (
        "You merged two equal expressions between which something ran of which nothing is known "
        "(`effects_of(node).opaque`): it may have changed anything, here what flows back as gradient."
    ),
    "merged what is written": (
        "You merged two equal values of which one is written later: the write now reaches whoever reads the other one."
    ),
    "merged what is returned": (
        "You made two returned tensors into one. The caller may write into either, and must not see it in the other."
    ),
    "found something else": (
        "`find_duplicates` does not tell what `merge_duplicates` needs: a dictionary from each node that can go to an "
        "earlier node that can stand in for it, for all of them."
    ),
    "changed while looking": "`find_duplicates` changed the graph: it only looks.",
    "something else": "The merged graph computes something else than the original.",
}

UNNAMED = ("something else", "merged too little", "found something else")

BY_TRAP = {
    "modules": "compared modules by class",
    "keywords": "ignored keywords",
    "literals": "equal literals",
    "draws": "merged two draws",
    "training": "merged in training",
    "write between": "merged across a write",
    "written": "merged what is written",
    "returned": "merged what is returned",
    "switch": "merged across a switch",
    "unknown": "merged across the unknown",
    "containers": "lists are no tuples",
}
"""Which mistake a case is there for: where the case is right, the mistake is not made."""

WRONG = tuple(BY_TRAP.values())
"""Mistakes that merge too much."""

TOO_LITTLE = (
    "nothing merged", "first level only", "order of keywords", "lists not compared", "slices not compared",
    "one module twice", "methods not merged", "functions not merged", "forgot too often",
)  # fmt: skip
"""Mistakes that merge too little."""

ON = "torch._C._set_grad_enabled(True)"
OFF = "torch._C._set_grad_enabled(False)"
AUTOCAST = 'm = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, False)'
FORKS = "\n".join(
    f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})\nb{i + 1} = torch.sin(b{i}) + torch.cos(b{i})" for i in range(14)
)
WEIGHT = {"w": "torch.rand(4, 4)", "p": "nn.Parameter(torch.rand(4, 4))"}
LAYERS = {"one": "nn.Linear(4, 4)", "other": "nn.Linear(4, 4)"}

FIXED = f"""
== signs of zero: literals
return torch.atan2(x * 0.0, x - 3) - torch.atan2(x * -0.0, x - 3), x.abs() * 0.0

== zeros that are added: literals
return torch.add(x, 0.0), torch.add(x, -0.0), x * 2, x * 2.0

== whole numbers: literals
return x + 1, x + 1.0, x + True, x * 1, x // 1

== truth values: literals
return (x + 1).sum(), (x + True).float(), (x * 1).abs(), x & True

== equal checks: effects
torch._assert(x.size(0) > 0, 'no rows')
torch._assert(x.size(0) > 0, 'no rows')
return x.sin()

== slices: slices
a = x[1:].sin()
b = x[1:].sin()
c = x[1:, 0].sum()
d = x[:1].sin()
return a - b.cos() + c + d

== slices with sizes: slices
n = x.size(0)
m = x.size(0)
a = x[: n - 1]
b = x[: m - 1]
return a.sin() * b.sin().cos()

== lists and tuples: containers
return x[[0, 1]].sum() + x[0, 1] + x[[1, 0]].sum(dim=1).sum() * x[1, 0]

== containers in containers: containers
a = torch.stack([x, y])
b = torch.stack([y, x])
c = torch.stack((x, y))
return a - b, c.sum()

== three of a kind: twice
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return a.cos() + b.neg() * c.abs()

== three, one is written: written
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
b.mul_(2.0)
return a.cos() + b.neg() * c.abs()

== three, two are returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
return b, a.cos(), c

== four, two are returned: returned
a = torch.sin(x)
b = torch.sin(x)
c = torch.sin(x)
d = torch.sin(x)
return a, b, c.cos() + d.neg()

== returned as views: returned
a = torch.sin(x)
b = torch.sin(x)
return a.t(), b.view(-1), torch.sin(x).sum()

== returned in a dictionary: returned
a = torch.sin(x)
b = torch.sin(x)
return {{'a': [a], 'b': (b, 1)}}

== switched gradients: switch
a = x.sin().cos()
{OFF}
b = x.sin().cos()
c = x.sin().neg()
{ON}
d = x.sin().cos()
return a * d + b + c

== switched autocast: switch
a = x @ x
{AUTOCAST}
b = x @ x
c = (x @ x).float()
torch.amp.autocast_mode._exit_autocast(m)
return a.sum() + (x @ x).neg().sum(), b.neg(), c

== the unknown between: unknown
h = x * 2
a = h.tanh()
b = h.tanh()
h.detach_()
c = h.tanh()
d = h.tanh()
return a.neg() * b.cos(), c.neg() * d.cos()

== the unknown about another value: unknown
a = x.sin()
b = x.sin()
y.is_shared()
c = x.cos()
d = x.cos()
return a.neg() * b + c.neg() * d

== a check between: between
a = x.sin()
torch._assert(x.size(0) > 0, 'no rows')
b = x.sin()
return a.neg() * b

== a draw between: between
a = x.sin()
n = torch.rand_like(x)
b = x.sin()
return a.neg() * b + n

== draws of each kind: draws
a = F.dropout(x, 0.5, True).neg()
b = F.dropout(x, 0.5, True).neg()
c = F.dropout(x, 0.5, False).neg()
d = F.dropout(x, 0.5, False).neg()
return a - b.cos() + c.cos() - d + torch.bernoulli(x.sigmoid()) - torch.bernoulli(x.sigmoid()).cos()

== draws that read nothing: draws
a = torch.rand(4, 4)
b = torch.rand(4, 4)
return a - b.cos()

== creations: twice
a = torch.ones(4, 4)
b = torch.ones(4, 4)
c = torch.ones(4)
return x * a.sin() + b.sin().cos() - c

== writes by flag: write between
h = x * 2
a = h.cos()
F.relu(h, inplace=True)
b = h.cos()
return a - b

== writes by out: write between
h = x * 2
a = h.cos()
torch.sin(x, out=h)
b = h.cos()
return a - b

== writes by a module: write between
h = x * 2
a = h.cos()
self.act(h)
b = h.cos()
return a - b

== writes by +=: write between
h = x * 2
a = h.cos()
g = h
g += 1.0
b = h.cos()
return a - b

== a buffer is written: write between
a = self.w.sin()
self.w.mul_(0.5)
b = self.w.sin()
return x @ a - x @ b

== an input is written: write between
a = x.sin()
b = x.sin()
x.neg_()
c = x.sin()
d = x.sin()
return a.cos() * b + c.cos() * d

== equal writes: write between
h = x * 2
h.add_(1.0)
h.add_(1.0)
return h

== written through two views: written
a = x.sin()
b = x.sin()
c = b.t()[1:]
c[:, ::2].fill_(3.0)
return a.cos() + b

== two layers of equal weights: modules
return self.one(x) - self.other(x).neg() + self.one(x).cos() - self.same(x)

== modules with misleading names: modules
return self.relu(x) + self.tanh(x) + torch.relu(x) + self.relu(x).neg() + x.relu() * 2 - x.tanh() * 3

== a layer in evaluation, the graph in training: one module
return self.drop(x) * self.drop(x).cos() + self.norm(x).neg() * self.norm(x)

== a layer in training, the graph in evaluation: training
return self.drop(x) * self.drop(x).cos() + self.norm(x).neg() * self.norm(x)

== functions, methods, modules of one meaning: twice
a = torch.relu(x)
b = x.relu()
c = self.act(x)
d = F.relu(x)
return a - b + c - d + x.relu().cos() + torch.relu(x).neg() + self.act(x).sin() + F.relu(x).exp()

== other keywords: keywords
a = F.softmax(x, dim=0)
b = F.softmax(x, dim=1)
c = torch.sum(x, dim=0)
d = torch.sum(x, dim=0, keepdim=True)
return a - b + c - d.cos() + F.softmax(x, dim=0).neg()

== other dtypes: keywords
a = x.to(dtype=torch.float64)
b = x.to(dtype=torch.float16)
return a.sin(), b.sin(), x.sum(dtype=torch.float64), x.sum()

== other order of arguments: keywords
return torch.sub(x, y) + torch.sub(y, x) * torch.sub(x, y).cos() + torch.sub(x, y, alpha=2)

== several results: twice
a = torch.max(x, dim=0)
b = torch.max(x, dim=0)
c, d = torch.split(x, 2, dim=1)
e, f = torch.split(x, 2, dim=1)
return a[0] - b[0].cos() + a[1] + c.sum() - d.sum() * e.sum().cos() + f.sum().sin()

== not even read: twice
a = x.sin()
b = x.sin()
return a

== nothing to compute: nothing
return x

== nothing to merge: nothing
a = x.sin()
return a.cos() + a.neg()

== many forks: levels
a0 = x.sin()
b0 = x.sin()
{FORKS}
return a14 * b14.cos()

== weights: twice
a = self.w.sin() * self.p
b = self.w.sin() * self.p
return x @ a - x @ b.neg()

== double precision, no rows: twice
a = x.sin()
b = x.sin()
return a * b.cos()
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "truth values": {"inputs": (([4], "bool"),)},
    "the unknown about another value": {"two": True},
    "switched autocast": {"trained": False},  # sums of gradients in half precision depend on their order
    "whole numbers": {"inputs": (([4], "int64"),)},
    "slices with sizes": {"batches": [2]},
    "containers in containers": {"two": True},
    "writes by a module": {"state": {"act": "nn.ReLU(inplace=True)"}},
    "a buffer is written": {"state": WEIGHT},
    "two layers of equal weights": {"state": LAYERS | {"same": "self.one"}},
    "modules with misleading names": {"state": {"relu": "nn.Tanh()", "tanh": "nn.ReLU()"}},
    "a layer in evaluation, the graph in training": {
        "state": {"norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.5)"},
        "training": True,
        "modes": {"norm": False, "drop": False},
    },
    "a layer in training, the graph in evaluation": {
        "state": {"norm": "nn.BatchNorm1d(4)", "drop": "nn.Dropout(0.5)"},
        "modes": {"norm": True, "drop": True},
    },
    "functions, methods, modules of one meaning": {"state": {"act": "nn.ReLU()"}},
    "other order of arguments": {"two": True},
    "weights": {"state": WEIGHT},
    "double precision, no rows": {"inputs": (([0, 4], "float64"),)},
}
"""Further entries of these cases; `two` for a second input."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then programs in which parts are computed again among writes, draws and switches."""
    cases = written_cases(FIXED, MORE)
    return cases + [composed(random, number) for number in range(4)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program whose lines come again: at once, later, in another order, after a write or a switch."""
    composer = Composer(random, ("x", "y"))
    composer.compute(2)
    for _ in range(random.randint(6, 10)):
        again = random.random()
        made = [line.partition(" = ")[2] for line in composer.lines if " = " in line]
        if again < 0.5:
            composer.let(random.choice(made))
        elif again < 0.65:
            composer.do(composer.fill(WRITES, composer.let(f"torch.sin({composer.pick()})")))
        elif again < 0.75:
            composer.let(composer.fill(DRAWS))
        elif again < 0.8:
            composer.do(composer.fill(("torch._assert({0}.size(0) > 1, 'too few')", "{0}.is_shared()")))
        else:
            composer.compute()
    if random.random() < 0.5:
        switch = random.randrange(2, len(composer.lines))
        composer.lines[switch:switch] = [OFF]
        composer.lines.append(ON)
    returned = ", ".join(composer.random.choices(composer.values[2:], k=3))
    return composer.case(f"hidden mixture {number}", f"{returned}, {' + '.join(composer.values[-6:])}", trap="mixture")


class _Merging:
    """The judge's own merging, by comparing every node with every earlier one; `mistakes` says which rule is broken."""

    def __init__(self, graph_module: fx.GraphModule, seen: Mapping[fx.Node, Seen], *mistakes: str) -> None:
        self.mistakes = set(mistakes)
        self.seen = seen
        self.nodes = list(graph_module.graph.nodes)
        self.stand_in: dict[fx.Node, fx.Node] = {}
        held = [*graph_module.parameters(), *graph_module.buffers()]
        outside = {int(tensor.untyped_storage()._cdata) for tensor in held}
        outside |= {
            place for node in self.nodes if node.op in ("placeholder", "get_attr") for place in seen[node].value
        }
        for node in self.nodes:
            if seen[node].unknown:
                outside |= seen[node].value.union(*(seen[source].value for source in node.all_input_nodes))
        written = {place for node in self.nodes for place in seen[node].wrote}
        # A caller may pass inputs that overlap; of what is unknown, anything may be written.
        if written & outside or any(seen[node].unknown for node in self.nodes):
            written |= outside
        self.written = written
        self.returned = self._closure(self.nodes[-1].all_input_nodes)

    def _closure(self, nodes: list[fx.Node]) -> set[fx.Node]:
        found, pending = set(), list(nodes)
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                joins = node.target in (operator.add, operator.iadd)
                pending += [
                    source
                    for source in node.all_input_nodes
                    if joins or self.seen[source].value & self.seen[node].value
                ]
        return found

    def run(self) -> dict[fx.Node, fx.Node]:
        returned = set(self.returned)
        since: list[fx.Node] = []
        for node in self.nodes:
            if self._forgets(node):
                since.clear()
            if not node.op.startswith("call") or self._acts(node) or self._stays(node):
                continue
            for first in since:
                both = first in returned and node in returned and "merged what is returned" not in self.mistakes
                if not both and self._equal(first, node):
                    self.stand_in[node] = first
                    if node in returned:
                        returned.add(first)
                    break
            else:
                since.append(node)
        return self.stand_in

    def _forgets(self, node: fx.Node) -> bool:
        seen = self.seen[node]
        if node.op == "call_module" and "merged in training" in self.mistakes:
            return False
        if "forgot too often" in self.mistakes and seen.acts:
            return True
        return (
            (bool(seen.wrote) and "merged across a write" not in self.mistakes)
            or (seen.switched and "merged across a switch" not in self.mistakes)
            or (seen.unknown and "merged across the unknown" not in self.mistakes)
        )

    def _acts(self, node: fx.Node) -> bool:
        seen = self.seen[node]
        if seen.drew and "merged two draws" in self.mistakes and not seen.wrote:
            return False
        if node.op == "call_module" and "merged in training" in self.mistakes:
            return False
        return seen.acts

    def _stays(self, node: fx.Node) -> bool:
        kinds = {
            "call_module": "one module twice",
            "call_method": "methods not merged",
            "call_function": "functions not merged",
        }
        if kinds[node.op] in self.mistakes or "nothing merged" in self.mistakes:
            return True
        return bool(self.seen[node].value & self.written) and "merged what is written" not in self.mistakes

    def _equal(self, one: fx.Node, other: fx.Node) -> bool:
        if one.op != other.op:
            return False
        by_class = one.op == "call_module" and "compared modules by class" in self.mistakes
        if by_class and type(module_of(one)) is not type(module_of(other)):
            return False
        if not by_class and one.target != other.target:
            return False
        if not self._same(one.args, other.args):
            return False
        if "ignored keywords" in self.mistakes:
            return True
        if "order of keywords" in self.mistakes and list(one.kwargs) != list(other.kwargs):
            return False
        return self._same(dict(sorted(one.kwargs.items())), dict(sorted(other.kwargs.items())))

    def _same(self, one: Any, other: Any, depth: int = 0) -> bool:
        if isinstance(one, fx.Node) or isinstance(other, fx.Node):
            if "first level only" in self.mistakes:
                return one is other
            return self.stand_in.get(one, one) is self.stand_in.get(other, other)
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(self._same(one[key], other[key], depth) for key in one)
        if isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if isinstance(one, list) != isinstance(other, list) and "lists are no tuples" not in self.mistakes:
                return False
            if depth and "lists not compared" in self.mistakes:
                return False
            return len(one) == len(other) and all(map(self._same, one, other, [depth + 1] * len(one)))
        if isinstance(one, slice) and isinstance(other, slice):
            if "slices not compared" in self.mistakes:
                return False
            return self._same((one.start, one.stop, one.step), (other.start, other.stop, other.step))
        if "equal literals" in self.mistakes:
            return bool(one == other)
        # Written out, 0.0 and -0.0 differ, and one NaN is like another.
        return type(one) is type(other) and repr(one) == repr(other)


def merged(graph_module: fx.GraphModule, pairs: Mapping[str, str]) -> fx.GraphModule:
    """A copy of the graph in which the second node of each pair of names stands in for the first, which is gone."""
    copied = copy.deepcopy(graph_module)
    nodes = {node.name: node for node in copied.graph.nodes}
    for name in pairs:
        first = pairs[name]
        while first in pairs:
            first = pairs[first]
        nodes[name].replace_all_uses_with(nodes[first])
    for name in reversed([node.name for node in copied.graph.nodes if node.name in pairs]):
        copied.graph.erase_node(nodes[name])
    copied.graph.lint()
    copied.recompile()
    return copied


def _names(pairs: Mapping[fx.Node, fx.Node]) -> dict[str, str]:
    return {node.name: first.name for node, first in pairs.items()}


@once_a_case
def _seen(case: Case) -> dict[fx.Node, Seen]:
    return seen_effects(original_of(case).graph_module, inputs_of(case, 11))


def pairs_of(case: Case, *mistakes: str) -> dict[fx.Node, fx.Node]:
    """Each node of the case's graph that may go, and the earlier one that stands in for it, with these mistakes."""
    return _Merging(original_of(case).graph_module, _seen(case), *mistakes).run()


def solved(case: Case, *mistakes: str) -> fx.GraphModule:
    """The case's graph, merged by the judge, with these mistakes."""
    return merged(original_of(case).graph_module, _names(pairs_of(case, *mistakes)))


Counted = Counter[tuple[str, Any]]


def _counted(graph_module: fx.GraphModule) -> Counted:
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node))


def _left(case: Case, *mistakes: str) -> Counted:
    gone = Counter((node.op, node.target) for node in pairs_of(case, *mistakes))
    return _counted(original_of(case).graph_module) - gone


def _unread(graph_module: fx.GraphModule) -> Counted:
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node) and not node.users)


@once_a_case
def least(case: Case) -> int:
    """How many operations a careful elimination leaves."""
    return _left(case).total()


@once_a_case
def _too_little(case: Case) -> dict[str, Counted]:
    """What is left by the mistakes that merge too little, where it is more than needed."""
    left, wanted = {name: _left(case, name) for name in TOO_LITTLE}, _left(case)
    return {name: found for name, found in left.items() if found != wanted}


@once_a_case
def _too_much(case: Case) -> dict[str, dict[str, Any]]:
    """What a caller sees of what the mistakes make that merge too much, where it is something else."""
    original = original_of(case)
    seen = {name: own_behaviour(solved(case, name), original.calls) for name in WRONG}
    return {name: found for name, found in seen.items() if first_difference(original.behaviour, found)}


@once_a_case
def _shows(case: Case) -> bool:
    """Whether the mistake that the case is there for makes a difference in it."""
    name, right = BY_TRAP.get(case.parameters["trap"]), original_of(case)
    return name is not None and bool(first_difference(right.behaviour, own_behaviour(solved(case, name), right.calls)))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What must not have been merged, then what should have been, then what `find_duplicates` says."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = original_of(case), decode(evidence.graphs["graph"])
    size = len(original.graph_module.graph.nodes)
    found = behaviour(theirs, original.calls)
    if different := first_difference(original.behaviour, found):
        fits = tuple(name for name, seen in _too_much(case).items() if not first_difference(seen, found))
        yield Deviation("something else", fits, f"({different})", size)
        return
    if _shows(case):
        yield Agreement("something else", (BY_TRAP[case.parameters["trap"]],))
    left, wanted = operations(theirs), least(case)
    if left > wanted:
        figures = f"({left} operations left, {wanted} are needed)"
        counted = _counted(theirs)
        if _unread(theirs) - _unread(original.graph_module) == _counted(original.graph_module) - _left(case):
            yield "left the duplicate", figures
            return
        fits = tuple(name for name, other in _too_little(case).items() if other == counted)
        yield Deviation("merged too little", fits, figures, size)
        return
    yield Agreement("merged too little", tuple(_too_little(case)))
    acting = Counter((node.op, node.target) for node, seen in _seen(case).items() if seen.acts)
    if missing := acting - _counted(theirs):
        yield "merged an effect", f"(expected to stay: {', '.join(str(target) for _, target in missing)})"
        return
    if changed := changed_modules(original.graph_module, theirs):
        yield "changed the model", f"({changed})"
        return
    if problem := stale(evidence, theirs):
        yield problem
        return
    yield from _found(case, evidence)


def _found(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the answer of `find_duplicates`."""
    original, pairs = original_of(case), evidence.values["found"]
    if str(decode(evidence.graphs["looked at"]).graph) != str(original.graph_module.graph):
        yield "changed while looking", ""
        return
    order = [node.name for node in original.graph_module.graph.nodes]
    if not isinstance(pairs, list) or not all(
        node in order and first in order and order.index(first) < order.index(node) for node, first in pairs
    ):
        yield "found something else", f"(it gave {str(pairs)[:100]})"
        return
    applied = merged(original.graph_module, dict(pairs))
    if different := first_difference(original.behaviour, own_behaviour(applied, original.calls)):
        yield "found something else", f"(merged as it says, the graph is another one; {different})"
    elif operations(applied) > least(case):
        yield (
            "found something else",
            f"(merged as it says, {operations(applied)} operations are left, not {least(case)})",
        )
