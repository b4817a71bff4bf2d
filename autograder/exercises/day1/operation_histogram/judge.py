"""What the histogram must be, counted by the judge from the case itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day1.operation_histogram.visible import FUNCTIONS, METHODS, MODULES, build, one_less
from autograder.exercises.explaining import compared
from fxopt_core.graphs.names import OPERATIONS

MISCONCEPTIONS = {
    "not a mapping": "`operation_histogram` must return a mapping from name to count, such as a `collections.Counter`.",
    "one partition only": (
        "You counted one graph only. A model with graph breaks is several graphs; the histogram is over all of them."
    ),
    "not added up": (
        "An operation that occurs in several graphs has the count of one of them. Add them up, as `Counter.update` "
        "and `+` do: `{**one, **other}` and a dictionary's `update` keep the last count, a counter's `|` the largest."
    ),
    "inputs and outputs counted": (
        "You counted nodes that compute nothing: `placeholder`, `get_attr` and `output` only hand values in and out."
    ),
    "modules and methods missed": (
        "You counted functions only. A node may also call a method (`call_method`) or a module (`call_module`)."
    ),
    "node names counted": (
        "You counted `node.name`, which is unique within a graph (`relu`, `relu_1`, …): that is one of each. "
        "What a node calls is its `target`."
    ),
    "module paths counted": (
        "For `call_module`, `node.target` is the path of the submodule (`blocks.0`). What it *is* is the class of "
        "`graph_module.get_submodule(node.target)`."
    ),
    "targets as text": (
        "You used `str(node.target)` for functions: that is text with a memory address. A function has a `__name__`."
    ),
    "each operation once": "You counted each operation once for a graph: count how often it occurs.",
    "kinds counted": "You counted kinds of node (`node.op`); the histogram is over what the nodes call.",
    "each module once": (
        "You counted modules by their place in the model. A module that the graph calls twice counts twice: count "
        "nodes."
    ),
    "unread nodes missed": (
        "You left out operations whose value nobody reads. They run, too (a write such as `add_` may well be one), so "
        "they count."
    ),
    "graphs used up": (
        "After your count, the graphs are no longer what they were: you took them out of the list, or changed their "
        "nodes or modules. The next who reads them needs them whole. Loop over the list, and only look."
    ),
    "remembers": (
        "You counted right the first time, but not when asked again after a graph had changed; or the second call "
        "changed what the first one had returned. Count anew in each call, into a mapping of its own."
    ),
    "names without graphs": "Without any graph there is nothing to count: the mapping must be empty, without names.",
    "forms merged": (
        "You cut the names: `relu_` and `relu`, or `add.Tensor` and `add`, are different names. Count each under its "
        "whole name."
    ),
    "class name": (
        "For a module, the histogram has the name of its class: `type(module).__name__`. `__qualname__` also says "
        "where the class was defined, and a module may print itself under another name."
    ),
    "inner graphs counted": (
        "Where a graph calls a graph module, you counted what is inside. That is one node, named after its class."
    ),
    "wrong counts": "These are not the counts.",
}

UNNAMED = ("wrong counts", "inputs and outputs counted")

FIXED: dict[str, list[list[str]]] = {
    "no graphs": [],
    "one module, called three times, and a graph within a graph": [
        ["module ReLU", "same", "function relu", "twin"],
        ["module ReLU", "module GraphModule", "same"],
    ],
    "writes that nobody reads": [
        ["unread method add_", "unread method relu_", "function neg", "unread function tanh", "unread module ReLU"],
        ["unread method add_"],
    ],
    "names that mislead": [
        ["function tanh as relu", "method abs as tanh", "function neg as tanh_1", "method exp as output_1", "weight"],
        ["function relu as placeholder", "method relu as weight_1"],
    ],
    "one name for functions and methods": [
        ["function relu", "method relu", "module ReLU", "function getitem", "method getitem"],
        ["method relu", "function relu_", "method relu_", "function iadd", "function add.Tensor", "weight"],
    ],
    "equal graphs, and one without operations": [*[["function tanh", "method exp"]] * 2, ["again"], []],
    "one path, another class": [
        ["module ReLU", "module Tanh"],
        ["module Tanh", "module Hardtanh", "module Gate"],
        ["module Gate", "same", "module ReLU", "top Tanh"],
    ],
    "every operation, one of each": [
        [f"function {name}" for name in FUNCTIONS],
        [f"method {name}" for name in METHODS] + [f"module {name}" for name in MODULES],
    ],
}
"""Graphs of a hidden case for each class, the same for every seed."""


def hidden_cases(random: Random) -> list[Case]:
    """The fixed ones, then graphs of random chains with every kind of node and repeated operations."""
    cases = [Case(f"hidden {name}", {"graphs": graphs}) for name, graphs in FIXED.items()]
    for number in range(2):
        graphs = []
        for _ in range(random.randint(2, 3)):
            steps = [f"function {name}" for name in random.choices(sorted(FUNCTIONS), k=random.randint(2, 5))]
            steps += [f"method {name}" for name in random.choices(METHODS, k=random.randint(1, 3))]
            steps += [f"module {name}" for name in random.choices(sorted(MODULES), k=random.randint(1, 4))]
            steps += ["weight"] * random.randint(1, 2)
            random.shuffle(steps)
            steps.insert(random.randrange(1 + len(steps)), f"unread method {random.choice(METHODS)}")
            steps += ["module Tanh", "same"]
            graphs.append(steps)
        cases.append(Case(f"hidden {number}", {"graphs": graphs}))
    return cases


def name_of(node: fx.Node) -> str:
    """The name by which the task counts a node that computes something."""
    if node.op == "call_module":
        owner = node.graph.owning_module
        assert owner is not None
        return type(owner.get_submodule(str(node.target))).__name__
    return str(node.target) if node.op == "call_method" else str(getattr(node.target, "__name__", node.target))


def count(graphs: Iterable[fx.GraphModule], name: Callable[[fx.Node], str], kinds: Iterable[str]) -> Counter[str]:
    """Nodes of some kinds, counted by a name."""
    return Counter(name(node) for graph in graphs for node in own_nodes(graph) if node.op in kinds)


ALL_KINDS = ("placeholder", "get_attr", *sorted(OPERATIONS), "output")


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Whether the counts are right; if not, the mistakes that would have given just these."""
    if evidence.values["kind"] != "mapping":
        yield "not a mapping", f"(found {evidence.values['kind']})"
        return
    if not evidence.values["list left"] or not evidence.values["graphs left"]:
        yield "graphs used up", "(the list)" if not evidence.values["list left"] else "(nodes of a graph)"
        return
    graphs = build(case)
    if not graphs and evidence.values["counts"]:
        yield "names without graphs", f"(found {_short(dict(evidence.values['counts']))})"
        return
    found = {name: number for name, number in evidence.values["counts"] if number != 0}
    wanted = dict(count(graphs, name_of, OPERATIONS))
    if any(" at 0x" in name or name.startswith("<") for name in found):
        yield "targets as text", f"(found {_short(found)})"
        return
    under = {name: list(map(dict, answers)) for name, answers in under_mistakes(graphs).items()}
    asked = f"{len(graphs)} graphs" if len(graphs) != 1 else "one graph"
    size = sum(wanted.values())
    yield compared("wrong counts", found, wanted, under, f"({asked}", size)
    if found == wanted and graphs:
        one_less(graphs[0])
        now = dict(count(graphs, name_of, OPERATIONS))
        again = {name: number for name, number in evidence.values["again"] if number != 0}
        if again != now:
            yield "remembers", f"({asked}, after a change: expected {now}, found {again})"
        elif not evidence.values["counts left"]:
            yield "remembers", f"({asked}: after a second call the first mapping is no longer {wanted})"


def under_mistakes(graphs: list[fx.GraphModule]) -> dict[str, list[Counter[str]]]:
    """The counts that would come out under each mistake."""

    def path_or_name(node: fx.Node) -> str:
        return str(node.target) if node.op == "call_module" else target_or_name(node)

    def target_or_name(node: fx.Node) -> str:
        return name_of(node) if node.op in OPERATIONS else str(node.target)

    def other_name(node: fx.Node, name: Callable[[Any], str]) -> str:
        owner = node.graph.owning_module
        if node.op != "call_module" or owner is None:
            return name_of(node)
        return name(owner.get_submodule(str(node.target)))

    def whole_name(node: fx.Node) -> str:
        return other_name(node, lambda module: type(module).__qualname__)

    def printed_name(node: fx.Node) -> str:
        return other_name(node, lambda module: module._get_name())

    def cut(node: fx.Node) -> str:
        return name_of(node).rstrip("_").partition(".")[0]

    def inside(outer: Iterable[fx.GraphModule]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for graph in outer:
            for node in own_nodes(graph):
                called = graph.get_submodule(str(node.target)) if node.op == "call_module" else None
                if isinstance(called, fx.GraphModule):
                    counts += inside([called])
                elif node.op in OPERATIONS:
                    counts[name_of(node)] += 1
        return counts

    once: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    by_themselves: Counter[str] = Counter()
    for graph in graphs:
        once.update(set(count([graph], name_of, OPERATIONS)))
        called = {str(node.target): name_of(node) for node in own_nodes(graph) if node.op == "call_module"}
        modules.update(called.values())
        by_themselves.update(type(module).__name__ for module in {graph.get_submodule(path) for path in called})
    last, first, largest = Counter[str](), Counter[str](), Counter[str]()
    for one in (count([graph], name_of, OPERATIONS) for graph in graphs):
        last, first, largest = Counter({**last, **one}), Counter({**one, **first}), largest | one
    others = count(graphs, name_of, ["call_function", "call_method"])
    read = Counter(
        name_of(node) for graph in graphs for node in own_nodes(graph) if node.op in OPERATIONS and node.users
    )
    return {
        "kinds counted": [count(graphs, lambda node: node.op, kinds) for kinds in (ALL_KINDS, OPERATIONS)],
        "node names counted": [count(graphs, lambda node: node.name, kinds) for kinds in (ALL_KINDS, OPERATIONS)],
        "module paths counted": [count(graphs, path_or_name, kinds) for kinds in (ALL_KINDS, OPERATIONS)],
        "modules and methods missed": [
            count(graphs, name_of, ["call_function"]),
            count(graphs, name_of, ["call_function", "call_method"]),
            count(graphs, name_of, ["call_function", "call_module"]),
        ],
        "not added up": [last, first, largest],
        "one partition only": [count([graph], name_of, OPERATIONS) for graph in (graphs[:1] + graphs[-1:])],
        "inputs and outputs counted": [
            count(graphs, naming, (*sorted(OPERATIONS), *extra))
            for naming in (target_or_name, lambda node: name_of(node) if node.op in OPERATIONS else node.op)
            for extra in (("placeholder", "get_attr", "output"), ("get_attr",), ("placeholder", "output"), ("output",))
        ],
        "each operation once": [once, Counter(set(once))],
        "each module once": [others + modules, others + by_themselves],
        "unread nodes missed": [read],
        "inner graphs counted": [inside(graphs)],
        "forms merged": [count(graphs, cut, OPERATIONS)],
        "class name": [count(graphs, naming, OPERATIONS) for naming in (whole_name, printed_name)],
    }


def _short(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in list(found.items())[:8])
