"""What is shared and what is longest, found by the judge in the case's own graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.composed import written_cases
from autograder.exercises.day2.programs import build, program
from fxopt_core.graphs import is_operation

MISCONCEPTIONS = {
    "not a list": "Both functions must return a list of names, as in `[node.name for node in …]`.",
    "arguments counted": (
        "You counted a value twice that one node reads twice (`a * a`). `node.users` holds each reader once."
    ),
    "nested arguments missed": (
        "You missed a reader that holds the value in a list or by keyword, such as `torch.cat([a, b])`. "
        "`node.users` and `node.all_input_nodes` know these, too."
    ),
    "output forgotten": (
        "The `output` node reads what it returns. A value that is returned and used has two readers, and a rewrite "
        "that forgets the one breaks the other."
    ),
    "operations only": "An input (`placeholder`) or a weight can be shared as well: look at every node of the graph.",
    "wrong order": "The names of shared values must come in the order of the graph.",
    "wrong shared values": "The shared values are not right: a value is shared when more than one node reads it.",
    "inputs on the path": (
        "A critical path is made of operations: `placeholder`, `get_attr` and `output` compute nothing."
    ),
    "not a chain": "Your path is no chain: each node on it must read the one before it.",
    "only what is returned": (
        "Yours is the longest chain that ends at `output`, and there is a longer one that does not. An operation that "
        "writes in place (`h[0].exp_()`) takes its time, too, though nobody reads what it returns: look for the "
        "longest chain among all nodes."
    ),
    "path too short": (
        "There is a longer chain. Which reader to follow cannot be decided at the fork: for every node you need the "
        "length of the longest chain that ends in it."
    ),
}

UNARY = ("torch.relu({})", "torch.tanh({})", "{}.exp()", "{}.sigmoid()", "torch.neg({})", "{}.sin()")


FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(20))

FIXED = f"""
== modules on the path: modules
h = self.one(self.two(x))
return self.one(h) - torch.relu(x)

== weights that are shared: attributes
a = self.w * 2
b = self.w.sin() + a
return b @ self.p, self.p

== creations: creations
a = torch.ones(4, 4).sin().cos()
b = torch.arange(4)
return x + b, a * b

== no operation: nothing
return x

== no operation, and a weight: nothing
return self.w, x, {{'x': [x]}}

== many forks: forks
a0 = x
{FORKS}
return a20

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
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "modules on the path": {"state": {"one": "nn.Linear(4, 4)", "two": "nn.ReLU()"}},
    "weights that are shared": {"state": {"w": "torch.rand(4, 4)", "p": "nn.Parameter(torch.rand(4, 4))"}},
    "no operation, and a weight": {"state": {"w": "torch.rand(4, 4)"}},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """Random graphs of ten to sixteen operations with forks, joins, lists and several outputs; a chain of writes."""
    cases = []
    for number in range(4):
        values, lines, unread = ["x", "y"], [], {"x", "y"}
        for i in range(random.randint(10, 16)):
            first, second = random.choice(values), random.choice(values[-3:])
            form = random.choice([*UNARY, "torch.stack([{}, {}]).sum(dim=0)", "torch.add({}, other={})", "{} * {}"])
            lines.append(f"v{i} = {form.format(first, second)}")
            values.append(f"v{i}")
            unread -= {first, second} if "{}" in form.replace("{}", "", 1) else {first}
            unread |= {f"v{i}"}
        # Everything is read in the end, so that no longest chain leads into nothing.
        lines.append(f"return {', '.join(sorted(unread))}, {random.choice(values[2:])}, {values[-1]} * {values[-1]}")
        seed = random.randrange(2**31)
        shapes = ((2, 4), (2, 4))
        cases.append(program(f"hidden {number}", "\n".join(lines), arguments="x, y", inputs=shapes, seed=seed))
    writes = random.sample(["exp_()", "sin_()", "cos_()", "tanh_()", "neg_()"], random.randint(3, 5))
    body = f"h = {random.choice(UNARY).format('x')}\nh[{random.choice([0, 1])}].{'.'.join(writes)}\nreturn h, h * 2"
    drawn = [*cases, program("hidden writes", body, seed=random.randrange(2**31))]
    return [*drawn, *written_cases(FIXED, MORE)]


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


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one misconception that explains each of the two lists best, if it is not right."""
    shared, path = evidence.values["shared"], evidence.values["path"]
    if not isinstance(shared, list) or not isinstance(path, list):
        yield "not a list", ""
        return
    graph = build(case).graph
    if shared != shared_values(graph):
        yield _explain_shared(shared, graph), f"(found {', '.join(map(str, shared[:8])) or 'none'})"
    found = lengths(graph)
    longest, returned = max(found.values()), max(found[node] for node in own_nodes(graph) if node.op == "output")
    nodes = {node.name: node for node in own_nodes(graph)}
    if not all(name in nodes for name in path):
        yield "not a chain", "(it names what is no node of the graph)"
        return
    chain = [nodes[name] for name in path]
    if not all(map(is_operation, chain)):
        yield "inputs on the path", f"(found {' → '.join(path)})"
    elif not all(chain[i] in chain[i + 1].all_input_nodes for i in range(len(chain) - 1)):
        yield "not a chain", f"(found {' → '.join(path)})"
    elif len(chain) < longest:
        kind = "only what is returned" if len(chain) == returned else "path too short"
        yield kind, f"(found {len(chain)} operations, the longest chain has {longest})"


def _explain_shared(found: list[Any], graph: fx.Graph) -> str:
    """The misconception that gives these names."""
    right = shared_values(graph)
    if sorted(map(str, found)) == sorted(right):
        return "wrong order"
    arguments: Counter[str] = Counter()
    plain: dict[str, set[str]] = {node.name: set() for node in own_nodes(graph)}
    for node in own_nodes(graph):
        fx.node.map_arg((node.args, node.kwargs), lambda source: arguments.update([source.name]))
        for argument in node.args:
            if isinstance(argument, fx.Node):
                plain[argument.name].add(node.name)
    inner = [n.name for n in own_nodes(graph) if sum(user.op != "output" for user in n.users) > 1]
    explained = {
        "arguments counted": [node.name for node in own_nodes(graph) if arguments[node.name] > 1],
        "output forgotten": inner,
        "nested arguments missed": [node.name for node in own_nodes(graph) if len(plain[node.name]) > 1],
        "operations only": [node.name for node in own_nodes(graph) if is_operation(node) and node.name in right],
    }
    return next((name for name, names in explained.items() if found == names), "wrong shared values")
