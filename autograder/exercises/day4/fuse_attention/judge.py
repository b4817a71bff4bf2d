"""What a right fusion is: the same values, one operator in the place of each block, and nothing else touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.attention import MISTAKES, fused, mixture, named, readings, written_cases
from autograder.exercises.composed import once_a_case
from autograder.exercises.day4.blocks import block, build, inputs_of, transformer
from autograder.exercises.day4.fuse_attention.cases import FIXED, MORE
from autograder.exercises.day4.fuse_attention.visible import fused_calls
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import (
    COMMON,
    Calls,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    unusable,
)
from fxopt_core.graphs import is_operation, operation_name

aten = torch.ops.aten

MISCONCEPTIONS = COMMON | {
    "lost the mask": (
        "Your fused operator gets no mask, so tokens that were hidden are seen again. What was added to the scores "
        "belongs into `attn_mask`."
    ),
    "took the mask for causal": (
        "You set `is_causal=True`. That hides what comes later in the text, and the mask of the graph hides something "
        "else."
    ),
    "forgot the scale": (
        "You did not hand on the scale of the graph. Without `scale=` the fused operator takes one over the square "
        "root of the head size, and the graph may have another number."
    ),
    "scaled where there was no scale": (
        "The scores were not scaled at all, but the fused operator scales unless you tell it otherwise: hand it "
        "`scale=1.0`."
    ),
    "scaled twice": (
        "The queries are scaled already, and the fused operator scales once more. What happens before the first "
        "product stays as it is: hand over `scale=1.0`."
    ),
    "inverted the scale": (
        "The scores are *divided* by the number in the graph, and you multiply by it: the scale is one over it."
    ),
    "one of several factors": (
        "The scores are multiplied or divided several times, and only one of the numbers reaches your scale. Multiply "
        "them all."
    ),
    "lost one of the masks": (
        "Two masks are added to the scores, and only one of them reaches your fused operator. Add them up, or leave "
        "the block as it is."
    ),
    "scaled the scores without the mask": (
        "Here the mask is added first, and then scores *and* mask are multiplied. The fused operator scales the scores "
        "alone and adds the mask afterwards. Scale the mask, too, or leave the block as it is."
    ),
    "overlooked alpha": (
        "The mask is added with a factor, `add(scores, mask, alpha=…)`, and your fused operator gets the mask without "
        "it. Look at `kwargs`, too."
    ),
    "took ones for a mask": (
        "A mask of `bool` is added to the scores here, as zeros and ones. The fused operator reads such a mask in "
        "another way: it hides what is `False`. Leave the block as it is, or cast the mask."
    ),
    "lost what follows the softmax": (
        "Something is multiplied or added between the softmax and the values, and in your graph it is gone. The fused "
        "operator has no place for it: leave the block as it is."
    ),
    "key not turned back": (
        "Your fused operator gets the key as the first product reads it, transposed. It wants (…, keys, width): "
        "transpose the last two dimensions back."
    ),
    "swapped the operands": "Query, key and value reach the fused operator in the wrong places.",
    "softmax over another dimension": (
        "You fused a softmax that does not run over the keys (its `dim` is not the last dimension). The fused operator "
        "always runs over the keys."
    ),
    "fused what another reads": (
        "You fused a block of which somebody else reads the weights, or a step on the way. They have to be computed "
        "anyway, so the fused operator comes on top: leave such a block alone."
    ),
    "no attention there": "You fused what is not attention.",
    "fused too much": "You fused a block that must stay as it is.",
    "not all fused": (
        "A block that can be fused is still written out. Steps that change nothing, such as a cast to the dtype that "
        "is there already, need not stop you."
    ),
    "does not run": (
        "The graph that you return does not run, though the original did. The fused operator takes less than the steps "
        "that it replaces: a mask, for instance, must not be larger than the scores."
    ),
    "left the old steps": (
        "The fused operator is there, but steps of the old block are still in the graph, and nobody reads them. "
        "`eliminate_dead_code` keeps every dropout, even one that is off: erase the old steps yourself, from the "
        "output upwards."
    ),
    "something else": "The rewritten graph computes something else than the original.",
}

UNNAMED = ("something else", "fused too much")
"""Say what is wrong, and name no mistake."""


def hidden_cases(random: Random) -> list[Case]:
    """Other numbers and sizes of the same kinds, a case for each class, and blocks among look-alikes."""

    def seed() -> int:
        return random.randrange(2**31)

    def number() -> float:
        return round(random.uniform(0.2, 1.3), 3)

    return [
        block("hidden times", number=number(), length=random.randint(5, 8), seed=seed()),
        block("hidden divided", scale="divided", number=number(), layers=2, seed=seed()),
        block("hidden plain", scale="", masked=random.choice([True, False]), seed=seed()),
        block("hidden query", scale="query", number=number(), seed=seed()),
        block("hidden shared", shared="weights", scale="divided", seed=seed()),
        transformer("hidden gpt2", "gpt2", layers=2, heads=4, seed=seed()),
        *written_cases(FIXED, MORE),
        *(mixture(random, f"hidden mixture {i}") for i in range(4)),
    ]


@once_a_case
def known(case: Case) -> tuple[fx.GraphModule, Calls, dict[str, Any], Counter[str]]:
    """The case's graph, how it is called, what a caller sees of it, and which operations nobody reads."""
    graph_module = build(case)
    trained = [value.clone() for value in inputs_of(case, 13)] if case.parameters["kind"] == "written" else None
    calls = Calls([list(inputs_of(case, 11)), list(inputs_of(case, 12))], trained)
    return graph_module, calls, own_behaviour(graph_module, calls), unread(graph_module)


@once_a_case
def mistaken(case: Case) -> Mapping[str, dict[str, Any]]:
    """What a caller would see in the first call under each mistake that can be made here."""
    first = Calls(known(case)[1].inputs[:1])
    can = [name for name, (concerns, _) in MISTAKES.items() if any(map(concerns, readings(case)))]
    return OnDemand(can, lambda name: own_behaviour(fused(case, name), first))


def unread(graph_module: fx.GraphModule) -> Counter[str]:
    """Operations whose values lead nowhere, and that do nothing else, by name. A dropout that is off does nothing."""
    needed: set[fx.Node] = set()
    nodes = list(all_nodes(graph_module))
    for node in reversed(nodes):
        idle = node.target is aten.dropout.default and not (node.args[2] if len(node.args) > 2 else True)
        acts = node.op == "output" or (node.is_impure() and not idle)
        if acts or any(user in needed for user in node.users):
            needed.add(node)
    return Counter(operation_name(node) for node in nodes if is_operation(node) and node not in needed)


def softmaxes(graph_module: fx.GraphModule) -> int:
    """How many softmaxes are in a graph."""
    return sum("softmax" in operation_name(node) for node in all_nodes(graph_module) if is_operation(node))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What the rewritten graph computes, then what was fused that must not be, then how much was."""
    if problem := unusable(evidence):
        yield problem
        return
    original, calls, wanted, dead = known(case)
    theirs, read = decode(evidence.graphs["graph"]), readings(case)
    found, must = len(fused_calls(theirs)), sum(one.refused == "" for one in read)
    may = sum(one.refused is None for one in read)
    size, tolerance = len(original.graph.nodes), {"relative": 1e-3, "absolute": 1e-4}
    said = f"({found} fused, {must} to fuse)"
    seen = behaviour(theirs, calls)
    different = first_difference(wanted, seen, **tolerance)
    reasons = {one.refused for one in read if one.refused}
    if found > must + may and not reasons:
        yield "no attention there", said
        return
    if different:
        fits = _fits(case, seen, tolerance, set(map(named, mistaken(case))))
        if different.kind == "does not run" and not fits:
            yield "does not run", f"({different}; {said[1:]}"
            return
        yield Deviation("something else", fits, f"({different}; {said[1:]}", size)
        return
    if case.parameters["kind"] == "block":  # these have every mistake that could be taken for another
        yield Agreement("something else", partial(_shown, case, seen, tolerance))
    if changed := changed_modules(original, theirs):
        yield "changed the model", f"({changed})"
        return
    left = unread(theirs) - dead
    if found and left:
        yield "left the old steps", f"({', '.join(sorted(left.elements()))})"
        return
    if found > must + may or found + softmaxes(theirs) > softmaxes(original):
        yield (next(iter(reasons)) if len(reasons) == 1 else "fused too much"), said
    elif found < must:
        yield "not all fused", said
    elif not evidence.values["fresh"]:
        yield "forgot recompile", ""
    elif "again" not in evidence.graphs or operations(decode(evidence.graphs["again"])) != operations(theirs):
        yield "not idempotent", ""


def _fits(case: Case, seen: dict[str, Any], tolerance: dict[str, float], names: Collection[str]) -> tuple[str, ...]:
    """Which of some mistakes would have shown just what was seen in the first call."""
    first, others = seen | {"calls": seen["calls"][:1], "gradients": {}}, mistaken(case)
    asked = [name for name in others if named(name) in names]
    return tuple(sorted({named(name) for name in asked if not first_difference(others[name], first, **tolerance)}))


def _shown(case: Case, seen: dict[str, Any], tolerance: dict[str, float], names: Collection[str]) -> set[str]:
    """Which of some mistakes can be made here, and would have shown something else."""
    return set(map(named, mistaken(case))).intersection(names).difference(_fits(case, seen, tolerance, names))
