"""The peak of a step's graph: the judge traces the step anew and follows every storage."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cache
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.u6.peak_memory.model import FLAWS, alive
from autograder.exercises.u6.peak_memory.visible import BODIES, graph_of, step

MISCONCEPTIONS = {
    "not a pair": "Return a pair: the bytes as a whole number, and the name of a node at which they are reached.",
    "not its name": (
        "`peak` returns the node itself. Return its name, the text `node.name`: whoever reads your answer may not have "
        "the graph."
    ),
    "inputs left out": (
        "Parameters, momenta and the batch take memory as well: they belong to the caller and are there all the time."
    ),
    "inputs die": ("Inputs belong to the caller. They do not go away when the graph has used them for the last time."),
    "views counted": (
        "A view has no memory of its own, and an operator that writes in place makes none: look at the *storage* of a "
        "value and count each storage once."
    ),
    "views keep nothing": (
        "A view keeps its storage alive. It goes when the last of all tensors on it has been used for the last "
        "time, not when its first one has."
    ),
    "freed too early": (
        "While an operator runs, what it reads is still there *and* what it writes is there already. What was read for "
        "the last time goes only afterwards."
    ),
    "never freed": "A value that nobody reads any more goes away. You added up everything that the graph makes.",
    "result freed": "What the graph returns is kept to the end: the output node uses it.",
    "keywords left out": (
        "A node may read another one by keyword. Ask `node.users`, or look through `kwargs` as well as `args`."
    ),
    "tuples left out": "Some operators return several tensors: their `meta['val']` is a tuple, and each counts.",
    "first of several": "Some operators return several tensors, and all of them are there at once, not only the first.",
    "four bytes each": "Not every number takes four bytes: masks take one, classes and double precision take eight.",
    "bytes of the view": "A storage has `nbytes()` of its own: the tensor that lies on it may be a part of it.",
    "unread left out": "What nobody reads is there while its node runs, too.",
    "unread inputs left out": (
        "An input is there all the time, also one that no node reads: the caller made it, and keeps it."
    ),
    "inputs one by one": "Two inputs may be parts of one tensor. What they share is there once: count storages.",
    "wrong node": "The bytes are right, but at this node there are fewer.",
    "wrong peak": "At no node of this graph so many bytes are alive.",
}


def hidden_cases(random: Random) -> list[Case]:
    """One step for each rule that is easily forgotten, then random ones."""
    fixed = {
        "large inputs": step(256, 8, 64, "relu", 4, update="momentum"),
        "views live longer": step(8, 64, 256, "first half", "first half", 8),
        "several results": step(4, 256, 64, "normed", "first half", 4, update="none"),
        "classes": step(4, 200, 4, loss="classes"),
        "masks": step(16, 128, 64, "leaky", "leaky", 16, dtype="float64"),
        "returned": step(8, 256, 128, "softmax", returns_output=True),
        "in place": step(16, 64, 32, "scaled in place", "scaled in place", 8, update="momentum"),
        "wide": step(8, 128, 32, "widened", "residual", "relu", 8),
        "a part of a larger input": step(64, 32, 16, "tanh", 4, sliced=True),
        "two inputs in one tensor": step(64, 40, 16, "tanh", 64, together=True),
        "a node that nobody reads": step(8, 16, 32, "tanh", 4, unread=True),
        "two results that nobody reads": step(4, 256, 64, "tanh", 4, pairs=True),
        "arguments by keyword": step(16, 64, 128, "residual", 8, keywords=True),
        "an input that nobody reads": step(16, 64, 32, "relu", 8, spare=random.randint(40, 400)),
        "one row": step(48, 1, 32, "tanh", 16, update="none", returns_output=True),
    }
    cases = [Case(name, {"step": given}) for name, given in fixed.items()]
    return cases + [Case(f"random {number}", {"step": random_step(random)}) for number in range(3)]


def random_step(random: Random) -> dict[str, Any]:
    """Two to four linear layers of random sizes, with up to two things between them."""
    layers: list[str | int] = []
    for _ in range(random.randint(2, 4)):
        layers.append(4 * random.randint(1, 24))
        layers += random.choices(list(BODIES), k=random.randint(0, 2))
    return step(
        random.randint(2, 64),
        random.randint(1, 128),
        *layers,
        update=random.choice(["sgd", "momentum", "none"]),
        loss=random.choice(["square", "classes"]),
        dtype=random.choice(["float32", "float32", "float64"]),
        returns_output=random.random() < 0.3,
    )


@cache
def _traced(step_as_json: str) -> fx.Graph:
    return graph_of(json.loads(step_as_json))[0].graph


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What is not right about a peak, and the mistakes that would have given just that."""
    size, name = evidence.values["bytes"], evidence.values["node"]
    if size is None or name is None:
        yield "not a pair", f"(found {size} and {name})"
        return
    if not evidence.values["named"]:
        yield "not its name", f"(found the node {name})"
        return
    graph = _traced(json.dumps(case.parameters["step"]))
    right = alive(graph)
    most = max(right.values())

    def shown(names: Collection[str]) -> list[str]:
        return [flaw for flaw in names if not _is_peak(alive(graph, flaw), size, name)]

    if size == most == right.get(name):
        yield from (Agreement(question, shown) for question in ("wrong peak", "wrong node"))
        return
    fits = tuple(flaw for flaw in FLAWS if flaw not in shown(FLAWS))
    places = [node for node, found in right.items() if found == most]
    told = f"(found {size:,} bytes at {name}, wanted {most:,} at {' or '.join(places[:3])})"
    yield Deviation("wrong node" if size == most else "wrong peak", fits, told, len(right))


def _is_peak(sizes: dict[str, int], size: int, name: str) -> bool:
    return max(sizes.values()) == size == sizes.get(name)
