"""What is shared and what is longest, found by the judge in the case's own graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import DRAWS, WRITES, Composer, written_cases
from autograder.exercises.day2.programs import build
from autograder.exercises.day2.walk_graph.visible import put_first
from fxopt_core.graphs import is_operation

MISCONCEPTIONS = {
    "not a list": "Both functions must return a list of names, as in `[node.name for node in …]`.",
    "changed while looking": (
        "Your functions changed the graph. They answer a question about it, and whoever asked still needs it as it was."
    ),
    "arguments counted": (
        "You counted a value twice when one node reads it twice (`a * a`). `node.users` holds each reader once."
    ),
    "nested arguments missed": (
        "You missed readers that hold the value in a list, in a slice or by keyword, such as `torch.cat([a, b])`. "
        "`node.users` and `node.all_input_nodes` know these, too."
    ),
    "output forgotten": (
        "The `output` node reads what it returns. A value that is both returned and used has two readers, and a "
        "rewrite that forgets one of them breaks the other."
    ),
    "operations only": "An input (`placeholder`) or a weight can be shared as well: look at every node of the graph.",
    "equal nodes as one": (
        "You took several nodes for one value because they fetch the same weight, or compute the same. Each node is a "
        "value of its own, with readers of its own: ask each for its `users`."
    ),
    "wrong order": "The names of the shared values must come in the order of the graph.",
    "wrong shared values": "Your shared values are not right. A value is shared when more than one node reads it.",
    "inputs on the path": (
        "A critical path is made of operations: `placeholder`, `get_attr` and `output` compute nothing."
    ),
    "not a chain": "Your path is not a chain: each node on it must read the one before it.",
    "only what is returned": (
        "You found the longest chain that ends at `output`, but a longer one ends elsewhere. An operation that writes "
        "in place (`h[0].exp_()`) takes its time even though nobody reads what it returns: look for the longest chain "
        "among all nodes."
    ),
    "answered from memory": (
        "Between two questions the graph was changed, and you gave the answer of before. Whatever you keep in "
        "`node.meta` or elsewhere is old by then: walk over the graph each time."
    ),
    "path too short": (
        "There is a longer chain than yours. To find it, you need to know for every node how long the longest chain is "
        "that ends in it."
    ),
}

NOTES = (
    "chain", "cost", "count", "depth", "distance", "level", "length", "longest", "longest_path", "order", "path",
    "position", "rank", "readers", "seen", "shared", "start", "time", "users", "visited",
)  # fmt: skip
"""Names of notes that somebody may have in `meta`, and that whoever makes notes of their own would take."""

UNNAMED = ("wrong shared values", "path too short")
"""What says that an answer is not right, and names no mistake."""

OPERATIONS = ("call_function", "call_method", "call_module")

FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(40))
CHAIN = "\n".join(["a = x.sin()", *["a = a.cos()"] * 1000])
WEIGHTS = {"w": "torch.rand(4, 4)", "p": "nn.Parameter(torch.rand(4, 4))"}

FIXED = f"""
== modules on the path: modules
h = self.one(self.two(x))
return self.one(h) - torch.relu(x)

== weights that are shared: attributes
a = self.w * 2
b = self.w.sin() + a
return b @ self.p, self.p

== creations: creations
c = x.sin().cos().tanh()
a = torch.ones(4, 4).sin().cos()
b = torch.arange(4)
d = a * b
e = x.neg().abs().ceil()
return x + b, c, d, e

== no operation: nothing
return x

== no operation, and a weight: nothing
return self.w, x, {{'x': [x]}}

== many forks: forks
a0 = x
{FORKS}
return a40

== a long chain: long
{CHAIN}
return a

== a fork whose longer branch is read first: forks
a = torch.sin(x)
b = torch.cos(a).tanh().neg()
c = torch.abs(a)
d = torch.stack([c, b])
return d.sum(), a

== a dead end is the longest: writes
h = x * 2
v = h.view(-1)[1:]
v.exp_().sin_().cos_().neg_()
return h + 1

== slices and keywords: arguments
n = x.size(0)
a = torch.sin(input=x)
b = a[: n - 1]
c = torch.add(a[1:], other=b)
return torch.clamp(c, min=-1.0), n

== the longer branch has the smaller names: names
a = torch.abs(x).ceil().cos()
b = torch.tanh(x)
return torch.stack([a, b]).sum(dim=0)

== the longer branch has the greater names: names
a = torch.tanh(x).sin().neg()
b = torch.abs(x)
return torch.stack([b, a]).sum(dim=0)

== a weight makes the shorter branch look as long: attributes
a = self.w.sin()
b = x.cos().tanh()
return torch.stack([a, b])

== a weight on both branches: attributes
a = torch.stack([self.p, self.w]).sum(dim=0)
b = torch.cat([x.cos().tanh(), x], dim=0)[:4]
return torch.stack([a, b])

== inputs that are called like operations: names
a = torch.relu(add)
b = torch.neg(a)
return a + b + relu

== returned twice: arguments
a = torch.relu(x)
return a, [a, {{'a': a}}]

== read in slices only: arguments
n = x.size(0)
m = x.size(1)
return x[n - 2 :], x[:n, :m], x[0, :m]

== a check is the end of the longest: writes
h = torch.sin(x)
torch._assert(h.cos().neg().sum() < 100, 'too large')
return h + 1

== nobody reads the end of the longest: writes
h = torch.sin(x)
g = h.cos().neg().tanh()
torch.rand_like(g)
return h + 1

== only writes: writes
x.mul_(2.0).add_(1.0)

== asked again after a change: again
a = torch.relu(x)
b = torch.tanh(a)
return torch.exp(b) + x, a

== a weight that is fetched twice: attributes
a = x * self._parameters['p']
b = torch.cos(a) + self._parameters['p']
return b

== a buffer that is fetched twice, once for two: attributes
a = torch.add(x, self._buffers['w'])
b = torch.mul(torch.cos(a), self.w)
return b - self.w

== the same computed twice: modules
a = self.one(x).relu()
b = self.one(x).relu()
c = torch.abs(x[:2])
d = torch.abs(x[:2])
return a.sin() + b, c.cos() + d

== a result taken apart: arguments
a, b = torch.split(x, 2, dim=1)
c = torch.max(a, dim=0)
return c[0] + b.sum(), c[1]
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "asked again after a change": {"again": True},
    "modules on the path": {"state": {"one": "nn.Linear(4, 4)", "two": "nn.ReLU()"}},
    "weights that are shared": {"state": WEIGHTS},
    "a weight that is fetched twice": {"state": WEIGHTS},
    "a buffer that is fetched twice, once for two": {"state": WEIGHTS},
    "the same computed twice": {"state": {"one": "nn.Linear(4, 4)"}},
    "no operation, and a weight": {"state": WEIGHTS},
    "a weight makes the shorter branch look as long": {"state": WEIGHTS},
    "a weight on both branches": {"state": WEIGHTS},
    "inputs that are called like operations": {"arguments": "add, relu", "inputs": ([4, 4], [4, 4])},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then random programs with forks, joins, lists, dead ends and several outputs."""
    return [*(composed(random, number) for number in range(4)), *written_cases(FIXED, MORE)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program: forks and joins in every spelling, chains that nobody reads, writes, weights."""
    composer = Composer(random, ("x", "y"))
    composer.state |= WEIGHTS
    composer.values += ["self.w", "self.p"]
    for _ in range(random.randint(6, 10)):
        kind = random.random()
        if kind < 0.15:
            composer.do(composer.fill(WRITES, composer.let(f"torch.sin({composer.pick()})")))
        elif kind < 0.25:
            composer.do(composer.fill(DRAWS))
        elif kind < 0.35:
            chain = composer.pick()
            for _ in range(random.randint(2, 4)):
                chain = composer.let(f"torch.cos({chain})", known=False)
        else:
            composer.compute()
    first, second = random.sample([value for value in composer.values if value.startswith("v")] * 2, 2)
    notes = {name: random.randint(2, 99) for name in NOTES}
    returned = f"{first}, [{second}, {first} * 2], x"
    return composer.case(f"hidden mixture {number}", returned, trap="mixture", notes=notes)


def shared_values(graph: fx.Graph) -> list[str]:
    """Names of the nodes that more than one node reads."""
    return [node.name for node in own_nodes(graph) if len(node.users) > 1]


def lengths(graph: fx.Graph) -> dict[fx.Node, int]:
    """For each node the number of operations on the longest chain that ends in it."""
    found: dict[fx.Node, int] = {}
    for node in own_nodes(graph):
        longest = max((found[source] for source in node.all_input_nodes), default=0)
        found[node] = longest + is_operation(node)
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Whether each of the two lists is right, and which mistakes would have given it if not."""
    shared, path = evidence.values["shared"], evidence.values["path"]
    if not isinstance(shared, list) or not isinstance(path, list):
        yield "not a list", f"(found {evidence.values['kinds']})"
        return
    graph = build(case).graph
    if str(decode(evidence.graphs["looked at"]).graph) != str(graph):
        yield "changed while looking", ""
        return
    if evidence.values["left notes"]:
        yield "changed while looking", "(the `meta` of its nodes, or an attribute of them, is not what it was)"
        return
    findings = [*_shared(shared, graph), *_path(path, graph)]
    yield from findings
    if not case.parameters.get("again") or not all(isinstance(finding, Agreement) for finding in findings):
        return
    changed = build(case)
    put_first(changed)
    again = evidence.values["shared again"], evidence.values["path again"]
    if not all(isinstance(answer, list) for answer in again):
        yield "not a list", "(when asked again)"
        return
    findings = [*_shared(again[0], changed.graph), *_path(again[1], changed.graph)]
    remembered = again[0] == shared or again[1] == path
    if remembered and not all(isinstance(finding, Agreement) for finding in findings):
        yield "answered from memory", f"(asked again, found {_listed(again[0])} and {_listed(again[1])})"
        return
    yield from findings


def _shared(found: list[Any], graph: fx.Graph) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    right, size = shared_values(graph), len(own_nodes(graph))
    mistakes = mistaken_shared(graph)
    if found == right:
        yield Agreement("wrong shared values", tuple(name for name, ways in mistakes.items() if right not in ways))
        return
    figures = f"(expected {_listed(right)}; found {_listed(found)})"
    if sorted(map(str, found)) == sorted(right):
        yield "wrong order", figures
        return
    fits = tuple(name for name, ways in mistakes.items() if found in ways)
    yield Deviation("wrong shared values", fits, figures, size)


def _path(path: list[Any], graph: fx.Graph) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    found = lengths(graph)
    longest, returned = max(found.values()), max(found[node] for node in own_nodes(graph) if node.op == "output")
    nodes = {node.name: node for node in own_nodes(graph)}
    told = f"(found {' → '.join(map(str, path)) or 'an empty path'})"
    if unknown := [str(name) for name in path if name not in nodes]:
        yield "not a chain", f"(no node of the graph is called {', '.join(unknown[:3])})"
        return
    chain = [nodes[name] for name in path]
    if not all(map(is_operation, chain)):
        yield "inputs on the path", told
    elif not all(chain[i] in chain[i + 1].all_input_nodes for i in range(len(chain) - 1)):
        yield "not a chain", told
    elif len(chain) < longest:
        fits = ("only what is returned",) if len(chain) == returned else ()
        figures = f"{told[:-1]}, which has {len(chain)}; the longest chain has {longest})"
        yield Deviation("path too short", fits, figures, len(nodes))
    elif returned < longest:
        yield Agreement("path too short", ("only what is returned",))


def _listed(names: list[Any]) -> str:
    return ", ".join(map(str, names[:8])) or "none"


def taken_together(graph: fx.Graph, kinds: tuple[str, ...]) -> list[str]:
    """The shared values, where equal nodes of some kinds count as one value with the readers of all of them."""
    readers: dict[str, set[fx.Node]] = {}
    keys: dict[fx.Node, str] = {}
    for node in own_nodes(graph):
        keys[node] = f"{node.op} {node.target} {node.args} {node.kwargs}" if node.op in kinds else node.name
        readers.setdefault(keys[node], set()).update(node.users)
    return [node.name for node in own_nodes(graph) if len(readers[keys[node]]) > 1]


def mistaken_shared(graph: fx.Graph) -> dict[str, list[list[str]]]:
    """The shared values as each mistake gives them, one list for each way to make it."""
    arguments: Counter[str] = Counter()
    plain: dict[str, set[str]] = {node.name: set() for node in own_nodes(graph)}
    for node in own_nodes(graph):
        fx.node.map_arg((node.args, node.kwargs), lambda source: arguments.update([source.name]))
        for argument in node.args:
            if isinstance(argument, fx.Node):
                plain[argument.name].add(node.name)
    inner = [n.name for n in own_nodes(graph) if sum(user.op != "output" for user in n.users) > 1]
    return {
        "arguments counted": [[node.name for node in own_nodes(graph) if arguments[node.name] > 1]],
        "output forgotten": [inner],
        "nested arguments missed": [[node.name for node in own_nodes(graph) if len(plain[node.name]) > 1]],
        "operations only": [[node.name for node in own_nodes(graph) if is_operation(node) and len(node.users) > 1]],
        "equal nodes as one": [taken_together(graph, ("get_attr",)), taken_together(graph, ("get_attr", *OPERATIONS))],
    }
