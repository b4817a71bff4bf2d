"""For judges: attention in graphs of operators. Where it is, what may be fused, and what each mistake would make of it.

A block is a softmax, a product of matrices above it and one below it, with nothing in between but `STEPS`. All that a
judge says of a learner's answer, it says by comparing: with the blocks that are there, and with those that would be
found, or fused, under one mistake.
"""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case
from autograder.exercises.composed import once_a_case
from autograder.exercises.day4.blocks import SHAPE, build, written

aten = torch.ops.aten
PRODUCTS = (aten.matmul.default, aten.bmm.default)
CASTS = (aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten._to_copy.default)
FUSED = aten.scaled_dot_product_attention.default


@dataclass(frozen=True)
class Rules:
    """What is taken for a block; the defaults are right, each other value is a mistake.

    Attributes:
        above: steps between the scores and the softmax are walked through.
        below: steps between the softmax and the output are.
        scores: there must be a product above.
        values: there must be a product below.
        either: a sum and a product by numbers are walked through on both sides, not on the first one only.
        committed: upwards, of the two sides only the first (or last) one from which one can go on is walked through,
            to its end: empty, `first` or `last`.
        on: a dropout that is on is a step, too.
        idle: a dropout that is on is a step if its probability is 0.
        right: the weights may be the right operand of the second product.
        any_step: every operation of one value is a step.
        products: the operators that are products.
        softmaxes: what counts as a softmax: `aten.softmax.int`, everything with softmax in its name, or anything.
        sole: blocks whose weights are read twice are left out.
        first: only the first block counts.
    """

    above: bool = True
    below: bool = True
    scores: bool = True
    values: bool = True
    either: bool = True
    committed: str = ""
    on: bool = False
    idle: bool = False
    right: bool = False
    any_step: bool = False
    products: tuple[Any, ...] = PRODUCTS
    softmaxes: str = "softmax"
    sole: bool = False
    first: bool = False


RIGHT = Rules()


@dataclass(frozen=True)
class Block:
    """An attention block.

    Attributes:
        softmax: its softmax.
        scores: the products that may be meant by its first one; several where a mask comes from a product, too.
        outputs: the products that may be meant by its second one; several where the weights meet values twice.
    """

    softmax: fx.Node
    scores: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]


def followed(node: fx.Node, rules: Rules = RIGHT) -> list[fx.Node]:
    """The values that a step passes on; none where the node is no step."""
    if node.op != "call_function":
        return []
    target, sources = node.target, [value for value in node.args[:2] if isinstance(value, fx.Node)]
    if target in (aten.mul.Tensor, aten.add.Tensor):
        return list(dict.fromkeys(sources if rules.either else sources[:1]))
    if target is aten.dropout.default and node.args[2] and not (rules.on or (rules.idle and node.args[1] == 0)):
        return []
    passes = target in (aten.div.Tensor, aten.dropout.default, *CASTS)
    alone = len(node.all_input_nodes) == 1 and target not in (aten.softmax.int, *rules.products)
    if passes or (rules.any_step and alone):
        return [value for value in node.args[:1] if isinstance(value, fx.Node)]
    return []


def _products_above(node: fx.Node, rules: Rules) -> list[fx.Node]:
    found, seen, pending = [], set(), [node]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.target in rules.products:
            found.append(node)
        elif rules.above:
            sources = followed(node, rules)
            if rules.committed:
                leading = [source for source in sources if source.target in rules.products or followed(source, rules)]
                sources = leading[:1] if rules.committed == "first" else leading[-1:]
            pending += sources
    return found


def _products_below(softmax: fx.Node, rules: Rules) -> list[fx.Node]:
    found, seen, pending = [], set(), [softmax]
    while pending:
        node = pending.pop()
        for user in node.users:
            if user.target in rules.products:
                if user.args[0] is node or rules.right:
                    found.append(user)
            elif rules.below and user not in seen and node in followed(user, rules):
                seen.add(user)
                pending.append(user)
    return list(dict.fromkeys(found))


def blocks_in(graph: fx.Graph, rules: Rules = RIGHT) -> list[Block]:
    """The blocks of a graph, in the order of their softmaxes."""
    found = []
    for node in graph.nodes:
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
            continue
        if rules.softmaxes == "softmax" and node.target is not aten.softmax.int:
            continue
        if rules.softmaxes == "name" and "softmax" not in str(node.target):
            continue
        if rules.softmaxes == "any" and (node.target in rules.products or followed(node, rules)):
            continue
        above, below = _products_above(node.args[0], rules), _products_below(node, rules)
        if (rules.scores and not above) or (rules.values and not below) or (rules.sole and len(node.users) > 1):
            continue
        found.append(Block(node, tuple(above), tuple(below)))
    return found[:1] if rules.first else found


@dataclass(frozen=True)
class Reading:
    """A block, read as the fused operator would have to say it.

    Attributes:
        block: the block, with one product on each side.
        factors: the numbers by which the scores are multiplied, from the softmax upwards, and whether each divides.
        masks: what is added to them, from the softmax upwards.
        old: the nodes that go when it is fused, from the output upwards.
        shared: one of them has other readers.
        dimension: the softmax does not run over the last dimension.
        odd: what the operator cannot say, in a few words each; empty where it can say everything.
    """

    block: Block
    factors: tuple[tuple[float, bool], ...]
    masks: tuple[fx.Node, ...]
    old: tuple[fx.Node, ...]
    shared: bool
    dimension: bool
    odd: frozenset[str]

    @property
    def refused(self) -> str | None:
        """`""` where it must be fused, `None` where it may be, else the mistake of who fuses it."""
        if self.shared or self.dimension:
            return "fused what another reads" if self.shared else "softmax over another dimension"
        return None if self.odd else ""


def _way(end: fx.Node, start: fx.Node) -> list[fx.Node]:
    """The nodes between two of them, from the lower one upwards, along steps."""
    ways: dict[fx.Node, list[fx.Node]] = {end: []}
    pending = [end]
    while pending:
        node = pending.pop()
        if node is start:
            return ways[node]
        for source in followed(node):
            if source not in ways:
                ways[source] = [*ways[node], node]
                pending.append(source)
    raise LookupError("the two nodes are not connected by steps")


def read(block: Block) -> Reading:
    """What the fused operator would have to say of a block."""
    softmax, scores, output = block.softmax, block.scores[0], block.outputs[0]
    above, below = _way(_first(softmax), scores), _way(_first(output), softmax)
    odd = {"several scores"} if len(block.scores) > 1 else set()
    factors: list[tuple[float, bool]] = []
    masks: list[fx.Node] = []
    for node in above:
        source = followed(node)[0] if len(followed(node)) == 1 else None
        if node.target in (aten.mul.Tensor, aten.div.Tensor):
            other: Any = node.args[1] if node.args[0] in (*above, scores) else node.args[0]
            if isinstance(other, fx.Node):
                odd.add("a tensor as a scale")
            else:
                factors.append((float(other), node.target is aten.div.Tensor))
                odd |= {"scale after the mask"} if masks == [] and _adds_above(node, above) else set()
        elif node.target is aten.add.Tensor:
            mask = node.args[1] if node.args[0] in (*above, scores) else node.args[0]
            odd |= _oddities_of_mask(node, mask, source, scores, [*above, scores])
            if isinstance(mask, fx.Node):
                masks.append(mask)
        elif node.target in CASTS and _dtype(node) != _dtype(scores):
            odd.add("cast")
    if len(masks) > 1:
        odd.add("several masks")
    if len(softmax.args) > 2 or softmax.kwargs:
        odd.add("cast")
    for node in below:
        if node.target in (aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor):
            odd.add("steps after the softmax")
        elif node.target in CASTS and _dtype(node) != _dtype(softmax):
            odd.add("cast")
    old = (output, *below, softmax, *above, scores)
    if output.args[1] in old:
        odd.add("the weights as values")
    shared = len(block.outputs) > 1 or any(len(node.users) > 1 for node in old[1:])
    last = softmax.args[1] in (-1, _dim(softmax) - 1)
    return Reading(block, tuple(factors), tuple(masks), old, shared, not last, frozenset(odd))


TWO_BLOCKS = "a product of two blocks"


def read_blocks(graph: fx.Graph) -> list[Reading]:
    """The blocks of a graph, read. Where one's output is another's scores, only one of both can be fused."""
    found = [read(block) for block in blocks_in(graph)]
    ends = [{*one.block.scores[:1], *one.block.outputs[:1]} for one in found]
    return [
        replace(one, odd=one.odd | {TWO_BLOCKS})
        if any(ends[place] & other for number, other in enumerate(ends) if number != place)
        else one
        for place, one in enumerate(found)
    ]


def _first(node: fx.Node) -> fx.Node:
    found = node.args[0]
    assert isinstance(found, fx.Node)  # else it would be no softmax or product of a block
    return found


def _adds_above(node: fx.Node, above: list[fx.Node]) -> bool:
    return any(other.target is aten.add.Tensor for other in above[above.index(node) + 1 :])


def _oddities_of_mask(
    node: fx.Node, mask: Any, source: fx.Node | None, scores: fx.Node, chain: list[fx.Node]
) -> set[str]:
    if not isinstance(mask, fx.Node):
        return {"a number as a mask"}
    odd = set()
    if node.kwargs.get("alpha", 1) != 1:
        odd.add("alpha")
    if mask in chain:
        odd.add("added to itself")
    value = mask.meta["val"]
    if value.dtype == torch.bool:
        odd.add("boolean mask")
    elif value.dtype != _dtype(scores):
        odd.add("mask of another dtype")
    if not 2 <= value.dim() <= _dim(scores) or node.meta["val"].shape != scores.meta["val"].shape:
        odd.add("mask of other dimensions")
    return odd


def _dtype(node: fx.Node) -> torch.dtype:
    found: torch.dtype = node.meta["val"].dtype
    return found


def _dim(node: fx.Node) -> int:
    return int(node.meta["val"].dim())


@once_a_case
def readings(case: Case) -> list[Reading]:
    """The blocks of a case's graph, read; the graph is the judge's own, and nobody may change it."""
    graph_module = build(case)
    _KEPT.append(graph_module)  # nodes know their graph, and a graph its module, weakly
    return read_blocks(graph_module.graph)


_KEPT: list[fx.GraphModule] = []

MISTAKES: dict[str, tuple[Callable[[Reading], bool], Callable[[Reading, dict[str, Any]], None]]] = {}
"""For each mistake which blocks it changes, and what it makes of the arguments of the operator."""


def _mistake(name: str, concerns: Callable[[Reading], bool]) -> Callable[[Any], Any]:
    def entered(change: Callable[[Reading, dict[str, Any]], None]) -> Any:
        MISTAKES[name] = (concerns, change)
        return change

    return entered


def _normal(reading: Reading) -> bool:
    return reading.refused == ""


def _odd(what: str) -> Callable[[Reading], bool]:
    return lambda reading: reading.refused is None and reading.odd == {what}


@_mistake("lost the mask", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["attn_mask"] = None


@_mistake("took the mask for causal", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["is_causal"], said["attn_mask"] = said["attn_mask"] is not None, None


@_mistake("forgot the scale", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["scale"] = None


@_mistake("scaled where there was no scale", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["scale"] = said["scale"] if reading.factors else None


@_mistake("scaled twice", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    if not reading.factors and said["query"].target is aten.mul.Tensor:
        said["scale"] = None


@_mistake("inverted the scale", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["scale"] = reduce(operator.mul, (number for number, _ in reading.factors), 1.0)


@_mistake("one of several factors", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["scale"] = _scale(reading.factors[-1:])


@_mistake("one of several factors ", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["scale"] = _scale(reading.factors[:1])


@_mistake("key not turned back", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["key"] = said["turned"]


@_mistake("swapped the operands", _normal)
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["query"], said["key"] = said["key"], said["query"]


@_mistake("lost one of the masks", _odd("several masks"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["attn_mask"] = reading.masks[0]


@_mistake("lost one of the masks ", _odd("several masks"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    said["attn_mask"] = reading.masks[-1]


@_mistake("scaled the scores without the mask", _odd("scale after the mask"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    pass


@_mistake("overlooked alpha", _odd("alpha"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    pass


@_mistake("took ones for a mask", _odd("boolean mask"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    pass


@_mistake("lost what follows the softmax", _odd("steps after the softmax"))
def _(reading: Reading, said: dict[str, Any]) -> None:
    pass


@_mistake(
    "softmax over another dimension",
    lambda reading: reading.dimension and not reading.shared and TWO_BLOCKS not in reading.odd,
)
def _(reading: Reading, said: dict[str, Any]) -> None:
    pass


def _scale(factors: tuple[tuple[float, bool], ...]) -> float:
    scale = 1.0
    for number, divides in factors:
        scale = scale / number if divides else scale * number
    return scale


def fused(case: Case, mistake: str = "") -> fx.GraphModule:
    """The case's graph with its blocks fused: rightly, or under one of `MISTAKES`."""
    graph_module = copy.deepcopy(build(case))
    graph = graph_module.graph
    concerns, change = MISTAKES.get(mistake, (_normal, lambda reading, said: None))
    for reading in read_blocks(graph):
        if not (reading.refused == "" or concerns(reading)):
            continue
        block = reading.block
        scores, output = block.scores[0], block.outputs[0]
        query, turned = scores.args
        with graph.inserting_before(output):
            key = graph.call_function(aten.transpose.int, (turned, -2, -1))
            said = {
                "query": query,
                "key": key,
                "value": output.args[1],
                "turned": turned,
                "attn_mask": reading.masks[0] if reading.masks else None,
                "scale": _scale(reading.factors),
            }
            if concerns(reading):
                change(reading, said)
            del said["turned"]
            operands = tuple(said.pop(name) for name in ("query", "key", "value"))
            output.replace_all_uses_with(graph.call_function(FUSED, operands, said))
        for node in reading.old:
            if not node.users:
                graph.erase_node(node)
    graph_module.recompile()
    return graph_module


def named(mistake: str) -> str:
    """The misconception of a mistake: some can be made in two ways."""
    return mistake.strip()


class Writer:
    """Writes a graph in which blocks stand among what only looks like them. All values are of one shape."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.values = ["q", "k", "v"]

    def let(self, expression: str, *, known: bool = True) -> str:
        """A line that names a value; `known` ones are of the common shape, and are read by later lines."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        if known:
            self.values.append(name)
        return name

    def pick(self) -> str:
        """A value, recent ones more often."""
        return self.random.choice([*self.values, *self.values[-2:]])

    def add(self, form: str) -> None:
        """The lines of a form: `{0}`, `{1}`, `{2}` are values, `{n}` is a number, the last line is a new value."""
        number = round(self.random.choice([-1, 1, 1]) * self.random.uniform(0.2, 1.4), 2)
        values = [self.pick() for _ in range(3)]
        *inner, last = form.split("; ")
        names: list[str] = []
        for line in inner:
            names.append(self.let(line.format(*values, *names, n=number, **_named(names)), known=False))
        self.let(last.format(*values, n=number, **_named(names)))

    def case(self, name: str, **more: Any) -> Case:
        """The graph as a case; it returns all that nobody reads."""
        read = "\n".join(line.partition(" = ")[2] for line in self.lines)
        unread = [name for name in self.values[3:] if not re.search(rf"\b{name}\b", read)]
        lines = [*self.lines, f"return {', '.join(unread)}, q"]
        double = {key: [shape, "float64"] for key, shape in {**dict.fromkeys("qkv", SHAPE), "m": (2, 1, 5, 5)}.items()}
        seed = self.random.randrange(2**20)
        return written(name, "\n".join(lines), inputs=double, seed=seed, **more)  # so that no error grows on the way


def _named(names: list[str]) -> dict[str, str]:
    return {chr(ord("a") + i): name for i, name in enumerate(names)}


BLOCKS = (
    "matmul({0}, T({1})); mul({a}, {n}); add({b}, m); softmax({c}, -1); matmul({d}, {2})",
    "matmul({0}, T({1})); div({a}, {n}); add(m, {b}); softmax({c}, 3); dropout({d}, 0.1, False); matmul({e}, {2})",
    "T({1}); matmul({0}, {a}); softmax({b}, -1); to({c}, torch.float64); matmul({d}, {2})",
    "mul({0}, {n}); matmul({a}, T({1})); add({b}, m); softmax({c}, -1); unary('sin', {2}); matmul({d}, {e})",
    "matmul({0}, T({1})); mul({a}, {n}); div({b}, 0.7); softmax({c}, -1); matmul({d}, {2})",
)
"""Blocks that must be found, and must be fused."""

LOOK_ALIKES = (
    "matmul({0}, T({1})); unary('relu', {a}); matmul({b}, {2})",
    "matmul({0}, T({1})); aten.log_softmax.int({a}, -1); matmul({b}, {2})",
    "softmax({0}, -1); matmul({a}, T({1})); matmul({b}, {2})",
    "matmul({0}, T({1})); softmax({a}, -1); softmax({b}, -1); matmul({c}, {2})",
    "matmul({0}, T({1})); softmax({a}, -1); aten.amax.default({b}, [-1], True); mul({2}, {c})",
    "softmax({0}, -1); mul({a}, {1}); add({b}, {2})",
)
"""What only looks like a block."""

UNFUSABLE = (
    "matmul({0}, T({1})); mul({a}, {n}); softmax({b}, -1); matmul({c}, {2}); aten.amax.default({c}, [-1], True); "
    "add({d}, {e})",
    "matmul({0}, T({1})); aten.amax.default({a}, [-1], True); softmax({a}, -1); matmul({c}, {2}); add({d}, {b})",
)
"""Blocks that must be found, and must not be fused: their weights or scores are read by others."""

OTHERS = ("unary('sin', {0})", "add({0}, {1})", "mul({0}, 0.5)", "unary('tanh', {2})", "dropout({0}, 0.2, False)")
"""Lines that have nothing to do with attention."""


def mixture(random: Random, name: str, count: int = 6) -> Case:
    """A graph of blocks, of blocks that must not be fused, of look-alikes, and of other lines, in any order."""
    writer = Writer(random)
    kinds = [BLOCKS, LOOK_ALIKES, UNFUSABLE, OTHERS]
    chosen = [BLOCKS, LOOK_ALIKES, *random.choices(kinds, weights=[3, 2, 1, 2], k=count - 2)]
    random.shuffle(chosen)
    for forms in chosen:
        writer.add(random.choice(forms))
    return writer.case(name)


def written_cases(text: str, more: dict[str, dict[str, Any]]) -> list[Case]:
    """Hidden cases from their text: `== name`, then lines, an empty line between two cases."""
    cases = []
    for part in text.strip().split("\n\n"):
        title, _, lines = part.partition("\n")
        name = title.removeprefix("== ")
        cases.append(written(f"hidden {name}", lines, **more.get(name, {})))
    unknown = set(more) - {case.name.removeprefix("hidden ") for case in cases}
    if unknown:
        raise ValueError(f"no case is called {', '.join(sorted(unknown))}")
    return cases


FINDING: dict[str, Rules] = {
    "counted softmax as attention": replace(RIGHT, scores=False),
    "values never mixed": replace(RIGHT, values=False),
    "two products are no attention": replace(RIGHT, softmaxes="name"),
    "two products are no attention ": replace(RIGHT, softmaxes="any"),
    "scores directly before the softmax only": replace(RIGHT, above=False),
    "values directly after the softmax only": replace(RIGHT, below=False),
    "one operator only": replace(RIGHT, products=PRODUCTS[:1]),
    "sole user expected": replace(RIGHT, sole=True),
    "stopped at the first": replace(RIGHT, first=True),
    "one side of a sum only": replace(RIGHT, either=False),
    "never turns back": replace(RIGHT, committed="first"),
    "never turns back ": replace(RIGHT, committed="last"),
    "a dropout that is on": replace(RIGHT, on=True),
    "a dropout that is on ": replace(RIGHT, idle=True),
    "weights on the right": replace(RIGHT, right=True),
    "any operation as a step": replace(RIGHT, any_step=True),
}
"""What each mistake in finding takes for a block."""


Triple = tuple[set[str], str, set[str]]


def triples(graph: fx.Graph, rules: Rules = RIGHT) -> list[Triple]:
    """For each block the names that may stand in its triple."""
    return [
        ({node.name for node in block.scores}, block.softmax.name, {node.name for node in block.outputs})
        for block in blocks_in(graph, rules)
    ]


def accepted(wanted: list[Triple], rows: list[list[str]]) -> bool:
    """Whether these are the rows of just these blocks, in any order."""
    places = {softmax: (above, below) for above, softmax, below in wanted}
    if sorted(row[1] for row in rows) != sorted(places):
        return False
    # A mistake that needs no product on one side takes whatever stands there.
    return all(
        (not places[row[1]][0] or row[0] in places[row[1]][0])
        and (not places[row[1]][1] or row[2] in places[row[1]][1])
        for row in rows
    )
