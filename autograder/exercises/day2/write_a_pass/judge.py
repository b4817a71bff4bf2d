"""What a right pass is: it looks without touching, rewrites through the editor, refuses with a reason, and is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.composed import once_a_case, original_of, written_cases
from autograder.exercises.day2.merge_duplicates import cases, oracle
from autograder.exercises.day2.programs import inputs_of, program
from autograder.exercises.graph_comparison import Difference, behaviour, first_difference, operations
from autograder.exercises.seen_effects import Seen, seen_effects

MISCONCEPTIONS = {
    "no pass": "Your class must be a subclass of `OptimizationPass`.",
    "no analysis": "`analyze` must return an `Analysis`.",
    "not registered": (
        "The pass is not known by its name: put `@register_pass('my_merging')` over the class, so that others can ask "
        "for it by name."
    ),
    "touched while looking": (
        "`analyze` changed the graph. It only finds opportunities; verification runs a pass again without one of its "
        "rewrites, and must know them all beforehand."
    ),
    "nothing merged": "After the pass equal nodes are still two: `transform` has to take the opportunity it is given.",
    "one at a time": "A second run found more to do: `analyze` must find all opportunities at once.",
    "merged too little": "After the pass something is still computed twice, and a second run does not find it either.",
    "bypassed the editor": (
        "The graph is rewritten, but not every node that went is in the editor's log: change the graph through "
        "`editor.replace`, so that the report can name them all."
    ),
    "other opportunities": (
        "Your opportunities are not the entries of `find_duplicates`: `Opportunity(node, stand_in)`, one for each node "
        "that can go."
    ),
    "another stand-in": (
        "An opportunity must carry the node that stands in, `Opportunity(node, stand_in)`: it is all that whoever "
        "takes the place later has to go by."
    ),
    "needs its own analysis": (
        "`transform` must get by with the opportunity that it is given. Another instance of your class looked for it, "
        "as verification does, and yours did not take it: what `analyze` keeps in the pass is not there then."
    ),
    "refused twice": "You refused a node more than once: each draw is one refusal.",
    "takes them all": (
        "When the pass runs without one of its opportunities, as verification does to find the one that is wrong, the "
        "others must still be taken, and that one left: `transform` takes one opportunity, the one that it is given."
    ),
    "keeps what it found": (
        "Asked a second time, the same pass finds something else in the same graph. Make an `Analysis` in each call of "
        "`analyze`, and keep nothing in the pass."
    ),
    "remembers the graph": (
        "Asked again after its opportunities were taken, the same pass names them once more, though their nodes are "
        "gone. A graph module stays the same object when its graph changes: look anew in each call of `analyze`, and "
        "keep nothing in the pass."
    ),
    "chooses the stand-in itself": (
        "`transform` was given an opportunity, and took another node for the stand-in than that says: an earlier one, "
        "which had become equal since the look. Look for nothing in `transform`: take what `opportunity.data` holds."
    ),
    "merged draws": "You merged random draws: each of them is another value.",
    "no refusals": (
        "A draw looks like an opportunity and is none: refuse it with `analysis.refuse(node, reason)`, each one."
    ),
    "refused without a reason": (
        "A refusal without a reason helps nobody: say in three words or more why the place was left."
    ),
    "refused too much": "You refused nodes that are no draws: only these look like opportunities and are none.",
    "not optimised": "Run by `GraphOptimizer`, your pass leaves more operations than by hand.",
    "something else": "The graph computes something else after your pass.",
}

UNNAMED = ("something else", "merged too little")
"""What says that an answer is not right, and names no mistake."""

WEIGHT = {"w": "torch.rand(4, 4)"}

FIXED = """
== draws of every kind
a = F.dropout(x, 0.5, True)
b = torch.bernoulli(x.sigmoid())
c = torch.normal(x, 1.0)
d = F.rrelu(x, training=True)
return a - b * c + d.sin() - x.sigmoid()

== draws that read nothing
a = torch.rand(4, 4)
b = torch.rand(4, 4)
return a.sin() - b.sin() + x.cos() * x.cos().neg()

== draws that write
h = x * 2
h.normal_()
g = x * 2
g.normal_()
return h - g.cos()

== modules that draw
return self.drop(x) - self.drop(x).sin() + self.still(x) * self.still(x).cos()

== nothing draws here
a = F.dropout(x, 0.5, False)
b = F.dropout(x, 0.5, False)
c = torch.sub(a, b.sin())
return c - self.rand(x) * self.rand(x).neg()

== what reads one draw
n = torch.rand_like(x)
a = n.sin()
b = n.sin()
return a * b.cos()

== four of a kind, one of which nobody reads
a = x.sin()
b = x.sin()
c = x.sin()
d = x.sin()
return a.neg() * b.cos() - c.abs()

== three levels
a = x.sin()
b = x.sin()
c = a.cos()
d = b.cos()
e = c.neg() * 2
f = d.neg() * 2
return torch.stack([e, f.tanh(), c])

== in lists and keywords
a = torch.cat([x, x.sin()], dim=1)
b = torch.cat([x, x.sin()], dim=1)
return torch.clamp(a, min=-1.0, max=1.0) - torch.clamp(b, max=1.0, min=-1.0).cos()

== only alike
a = x + 1
b = x + 1.0
c = torch.sum(x, dim=0)
d = torch.sum(x, dim=1)
return a, b, c - d

== a write between
h = x * 2
a = h.sin()
h.add_(1.0)
b = h.sin()
return torch.sub(a, b)

== a switch between
a = x.sin().cos()
torch._C._set_grad_enabled(False)
b = x.sin().cos()
torch._C._set_grad_enabled(True)
return a * b, x.sin().cos().neg() - torch.rand_like(x)

== the unknown between
h = x * 2
a = h.tanh()
h.detach_()
return a.neg() * h.tanh().cos(), x.cos() * x.cos().neg()

== one of two is written
a = x.sin()
b = x.sin()
a.add_(1.0)
return a * b.cos()

== a layer called like a method
return self.sin(x) - x.sin() + x.sin().neg()

== both are returned
return x.sin(), x.sin(), x.cos() * x.cos().neg()

== nothing but both is returned
return x.sin(), x.sin()

== one is returned, the other one is read
a = x.sin()
return a, x.sin().neg()

== three of a kind, the last of which is returned
a = x.sin()
b = x.sin()
return a.neg() * b.cos(), x.sin()

== three of a kind, two of which are returned
a = x.sin()
return a.neg(), x.sin(), x.sin()

== nothing to compute
return x
"""
"""Name and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "draws that read nothing": {"by_optimizer": False},
    "draws that write": {"by_optimizer": False},
    "modules that draw": {
        "state": {"drop": "nn.Dropout(0.5)", "still": "nn.Dropout(0.5)"},
        "modes": {"drop": True},
        "by_optimizer": False,
    },
    "a switch between": {"by_optimizer": False},
    "a layer called like a method": {"state": {"sin": "nn.Tanh()"}},
    "nothing draws here": {"state": {"rand": "nn.Linear(4, 4)"}},
}
"""Further entries of these cases. Symbolic tracing runs what reads nothing, and the optimiser wants one mode."""


def hidden_cases(random: Random) -> list[Case]:
    """Random numbers of duplicates and draws, a case for each class, and programs of everything."""
    cases = []
    for number in range(3):
        f, g = random.sample(["torch.exp", "torch.sin", "torch.cos", "F.softplus", "torch.atan"], 2)
        copies, draws = random.randint(2, 4), random.randint(1, 3)
        lines = [f"a{i} = {f}({g}(x))" for i in range(copies)] + [f"d{i} = torch.rand_like(x)" for i in range(draws)]
        random.shuffle(lines)
        values = [f"a{i}.tanh()" if i else "a0" for i in range(copies)] + [f"d{i}" for i in range(draws)]
        lines.append(f"return {' - '.join(values)}")
        cases.append(program(f"hidden {number}", "\n".join(lines), seed=random.randrange(2**31)))
    cases.append(told_which(random))
    text = "\n".join(f"{line}: pass" if line.startswith("== ") else line for line in FIXED.splitlines())
    return [*cases, *written_cases(text, MORE, state=WEIGHT), *(composed(random, number) for number in range(2))]


def told_which(random: Random) -> Case:
    """Several equal nodes behind one that becomes equal to them after the look (see `make_equal`)."""
    changed, name = random.sample(["exp", "sin", "cos", "atan", "erf"], 2)
    copies = random.randint(2, 4)
    lines = [f"a0 = torch.{changed}(x)", *(f"a{i + 1} = torch.{name}(x)" for i in range(copies))]
    lines.append(f"return {' - '.join(f'a{i} * {i + 2}' for i in range(copies + 1))}")
    given = {"node": f"{name}_{random.randrange(1, copies)}", "changed": changed}
    return program("hidden told which", "\n".join(lines), given=given, seed=random.randrange(2**31))


def composed(random: Random, number: int = 0) -> Case:
    """A random program whose lines come again among writes, draws and switches, as in `merge_duplicates`."""
    made = cases.composed(random, number)
    return Case(made.name, made.parameters | {"by_optimizer": False})


@once_a_case
def _seen(case: Case) -> dict[fx.Node, Seen]:
    return seen_effects(original_of(case).graph_module, inputs_of(case, 11))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the pass, the most telling first."""
    values = evidence.values
    for name, lacks in (("is_pass", "no pass"), ("is_analysis", "no analysis")):
        if not values[name]:
            yield lacks, ""
            return
    original, wanted = original_of(case).graph_module, oracle.least(case)
    draws = {node.name for node, seen in _seen(case).items() if seen.drew}
    if str(decode(evidence.graphs["looked at"]).graph) != str(original.graph):
        yield "touched while looking", ""
        return
    theirs = decode(evidence.graphs["graph"])
    if different := _differs(case, theirs):
        gone = _drawing(case, original) - _drawing(case, theirs)
        yield ("merged draws" if gone else "something else"), f"({different})"
        return
    if operations(theirs) == operations(original) > wanted:
        yield "nothing merged", f"({operations(theirs)} operations before and after)"
        return
    if values["again"] or operations(theirs) > wanted:
        yield (
            ("one at a time", f"(a second run rewrites {values['again']} more)")
            if values["again"]
            else ("merged too little", f"({operations(theirs)} operations left, {wanted} are needed)")
        )
        return
    merged = operations(original) - operations(theirs)
    bypassed = False
    if len(values["rewrites"]) != merged or not all(removed for _, removed in values["rewrites"]):
        # Where each place has its entry and one has nothing left to remove, another one has taken it.
        taken = len(values["rewrites"]) == merged and any(removed for _, removed in values["rewrites"])
        name = "takes them all" if taken else "bypassed the editor"
        bypassed = name == "bypassed the editor"
        yield name, f"({_logged(values['rewrites'], merged)})"
        # No return: whether draws are refused is another question, which `analyze` answers.
    elif problem := _opportunities(case, evidence, merged):
        yield problem
    refused = {name for name, _ in values["refusals"]}
    if not draws <= refused:
        yield "no refusals", f"(draws: {', '.join(sorted(draws))})"
        return
    if refused - draws:
        yield "refused too much", f"({', '.join(sorted(refused - draws))})"
        return
    if twice := [name for name, count in Counter(name for name, _ in values["refusals"]).items() if count > 1]:
        yield "refused twice", f"({', '.join(twice)})"
        return
    if short := [reason for _, reason in values["refusals"] if len(reason.split()) < 3]:
        yield "refused without a reason", f"(found {short[0]!r})"
        return
    first = values["opportunities"], [name for name, _ in values["refusals"]]
    second = values["second look"], values["refused then"]
    if first != second:
        said = [f"{len(places)} opportunities and {len(others)} refusals" for places, others in (first, second)]
        yield "keeps what it found", f"(first {said[0]}, then {said[1]})"
        return
    if values["afterwards"]:
        yield "remembers the graph", f"(asked afterwards: {', '.join(values['afterwards'])})"
        return
    if not values["registered"]:
        yield "not registered", ""
        return
    if "optimized" in evidence.graphs and not bypassed:  # `GraphOptimizer` takes such a pass out
        optimized = decode(evidence.graphs["optimized"])
        if operations(optimized) > operations(theirs):
            yield "not optimised", f"({operations(optimized)} operations left, by hand {operations(theirs)})"
        elif different := _differs(case, optimized):
            yield "something else", f"(run by `GraphOptimizer`; {different})"


def _differs(case: Case, theirs: fx.GraphModule) -> Difference | None:
    original = original_of(case)
    return first_difference(original.behaviour, behaviour(theirs, original.calls))


def _drawing(case: Case, graph_module: fx.GraphModule) -> Counter[tuple[str, Any]]:
    """How often the graph does each thing that draws in the case."""
    kinds = {(node.op, node.target) for node, seen in _seen(case).items() if seen.drew}
    return Counter(key for node in own_nodes(graph_module) if (key := (node.op, node.target)) in kinds)


def _opportunities(case: Case, evidence: Evidence, merged: int) -> tuple[str, str] | None:
    """What is wrong with the opportunities: there is one for each node that goes, and each can be taken alone."""
    found = evidence.values["opportunities"]
    rewritten = [name for name, _ in evidence.values["rewrites"]]
    if sorted(found) != sorted(rewritten) or len(set(found)) != merged:
        return "other opportunities", f"(found {', '.join(found) or 'none'}; {merged} nodes can go)"
    earlier = {first.name for first in oracle.pairs_of(case).values()}
    if swapped := sorted(earlier & set(found)):
        return "other opportunities", f"({', '.join(swapped)}: the earlier node stays)"
    stand_ins = {node.name: first.name for node, first in oracle.pairs_of(case).items()}
    told_stand_ins = dict(zip(found, evidence.values["stand-ins"], strict=True))
    if other := sorted(node for node in stand_ins.keys() & set(found) if told_stand_ins[node] != stand_ins[node]):
        asked = f"{other[0]}: expected {stand_ins[other[0]]}, found {told_stand_ins[other[0]]}"
        return "another stand-in", f"({asked})"
    if given := case.parameters.get("given"):
        node, first = given["node"], stand_ins[given["node"]]
        wanted = _readers(oracle.merged(original_of(case).graph_module, {node: first}), first)
        if "told" not in evidence.graphs:
            return "other opportunities", f"(none for {node})"
        if (read := _readers(decode(evidence.graphs["told"]), first)) != wanted:
            asked = f"told that {first} stands in for {node}: expected to read it {', '.join(wanted)}"
            return "chooses the stand-in itself", f"({asked}; it is read by {', '.join(read) or 'none'})"
    if "alone" in evidence.graphs:
        alone = decode(evidence.graphs["alone"])
        if found[-1] in {node.name for node in own_nodes(alone)}:
            taken = operations(original_of(case).graph_module) - operations(alone)
            name = "takes them all" if taken else "needs its own analysis"
            return name, f"(asked to take {found[-1]} only; it is still there, and {taken} others went)"
        if different := _differs(case, alone):
            return "takes them all", f"(asked to take {found[-1]} only; {different})"
    kept = {node.name for node in own_nodes(decode(evidence.graphs["graph"]))}
    if left := sorted(kept & set(found)):
        return "other opportunities", f"(still in the graph: {', '.join(left)})"
    if merged and "without one" in evidence.graphs:
        without = decode(evidence.graphs["without one"])
        told = f"(left out: {rewritten[0]}; operations then: {operations(without)}, expected {_without(case, merged)}"
        named = {node.name for node in own_nodes(without)}
        if operations(without) != _without(case, merged) or rewritten[0] not in named:
            return "takes them all", f"{told})"
        if different := _differs(case, without):
            return "takes them all", f"{told}; {different})"
    return None


def _readers(graph_module: fx.GraphModule, name: str) -> list[str]:
    """The names of the nodes that read the node of this name."""
    return sorted(node.name for node in own_nodes(graph_module) if name in map(str, node.all_input_nodes))


def _without(case: Case, merged: int) -> int:
    """How many operations are left when all opportunities but one are taken."""
    return operations(original_of(case).graph_module) - merged + 1


def _logged(rewrites: list[list[Any]], merged: int) -> str:
    """In words how many nodes went, and which of them the log names."""
    named = [node for node, removed in rewrites if removed]
    unnamed = [node for node, removed in rewrites if not removed]
    went = f"{merged} {'node' if merged == 1 else 'nodes'} went, and the log has {len(named)} of them"
    return went + (f"; for {', '.join(unnamed)} it says that nothing was removed" if unnamed else "")
