"""What the histogram must be, counted by the judge from the case itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.day1.operation_histogram.visible import FUNCTIONS, METHODS, MODULES, build
from fxopt_core.graphs.names import OPERATIONS

MISCONCEPTIONS = {
    "not a mapping": "`operation_histogram` must return a mapping from name to count, such as a `collections.Counter`.",
    "one partition only": (
        "You counted one graph only. A model with graph breaks is several graphs; the histogram is over all of them."
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
    "wrong counts": "The counts are not right.",
}


def hidden_cases(random: Random) -> list[Case]:
    """One to three graphs of random chains with every kind of node and repeated operations."""
    cases = []
    for number in range(3):
        graphs = []
        for _ in range(random.randint(2, 3)):
            steps = [f"function {name}" for name in random.choices(sorted(FUNCTIONS), k=random.randint(2, 5))]
            steps += [f"method {name}" for name in random.choices(METHODS, k=random.randint(1, 3))]
            steps += [f"module {name}" for name in random.choices(sorted(MODULES), k=random.randint(1, 4))]
            steps += ["weight"] * random.randint(1, 2)
            random.shuffle(steps)
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


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one misconception that explains the counts best, if they are not right."""
    if evidence.values["kind"] != "mapping":
        yield "not a mapping", f"(found {evidence.values['kind']})"
        return
    graphs = build(case)
    found = {name: number for name, number in evidence.values["counts"] if number != 0}
    if found == dict(count(graphs, name_of, OPERATIONS)):
        return
    yield _explain(found, graphs), f"(found {_short(found)})"


def _explain(found: dict[str, Any], graphs: list[fx.GraphModule]) -> str:
    """The misconception whose counts these are."""

    def path_or_name(node: fx.Node) -> str:
        return str(node.target) if node.op == "call_module" else name_of(node)

    def same(counts: Counter[str]) -> bool:
        return found == dict(counts)

    if any(" at 0x" in name or name.startswith("<") for name in found):
        return "targets as text"
    if same(count(graphs, lambda node: node.op, ALL_KINDS)) or same(count(graphs, lambda node: node.op, OPERATIONS)):
        return "kinds counted"
    for kinds in (OPERATIONS, ALL_KINDS):
        if same(count(graphs, lambda node: node.name, kinds)):
            return "node names counted"
        if same(count(graphs, path_or_name, kinds)):
            return "module paths counted"
    if same(count(graphs, name_of, ["call_function"])):
        return "modules and methods missed"
    if len(graphs) > 1 and any(same(count([graph], name_of, OPERATIONS)) for graph in graphs):
        return "one partition only"
    if {"placeholder", "output", "get_attr", "x", "weight"} & set(found):
        return "inputs and outputs counted"
    once: Counter[str] = Counter()
    for graph in graphs:
        once.update(set(count([graph], name_of, OPERATIONS)))
    if same(once) or same(Counter(set(once))):
        return "each operation once"
    return "wrong counts"


def _short(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in list(found.items())[:8])
