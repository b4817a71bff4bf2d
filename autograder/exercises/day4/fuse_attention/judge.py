"""What a right fusion is: the same values, one operator in the place of each block, and nothing else touched."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from random import Random
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exercises.day4.blocks import HEADS, WIDTH, block, build, inputs_of, transformer
from autograder.exercises.day4.fuse_attention.visible import fused_calls
from autograder.exercises.graph_comparison import COMMON, difference, operations, unusable

MISCONCEPTIONS = COMMON | {
    "lost the mask": (
        "Your fused operator gets no mask: tokens that were hidden are seen again. What was added to the scores "
        "belongs into `attn_mask`."
    ),
    "took the mask for causal": (
        "You set `is_causal=True`. That hides what comes later, which is another mask than the one of the graph."
    ),
    "forgot the scale": (
        "You did not hand on the scale of the graph. Without `scale=` the fused operator takes one by the root of the "
        "width of a head, which need not be the number in the graph."
    ),
    "scaled where there was no scale": (
        "The scores were not scaled at all, but the fused operator scales unless told otherwise: hand it `scale=1.0`."
    ),
    "scaled twice": (
        "The queries are scaled already, and the fused operator scales once more. What is left before the first "
        "product counts: hand it `scale=1.0`."
    ),
    "inverted the scale": (
        "The scores are *divided* by the number in the graph, and you multiply by it: the scale is one by that number."
    ),
    "key not turned back": (
        "Your fused operator does not run, or on the wrong dimensions: the first product reads the key transposed, the "
        "fused operator wants it as it is, (…, keys, width). Transpose the last two dimensions back."
    ),
    "swapped the operands": "Query, key and value reach the fused operator in the wrong places.",
    "softmax over another dimension": (
        "You fused a softmax that does not run over the keys (its `dim` is not the last dimension): the fused operator "
        "always does."
    ),
    "fused what another reads": (
        "You fused a block whose weights are an output, too. They have to be computed anyway, so that the fused "
        "operator comes on top: leave such a block alone."
    ),
    "no attention there": "You fused what is no attention.",
    "not all fused": "A block that could be fused is still written out.",
    "left the old steps": (
        "The fused operator is there, but steps of the old block still run: remove what nobody reads."
    ),
    "something else": "The rewritten graph computes something else than the original.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other numbers, sizes and orders of the same kinds."""

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
    ]


def wanted_calls(case: Case) -> int:
    """How many blocks can be fused."""
    given, form = case.parameters, case.parameters["form"]
    if given["kind"] != "block":
        return int(form.get("layers", 2))
    if form.get("mixes") == "gate" or form.get("shared") or form.get("dimension", -1) != -1:
        return 0
    return given["layers"] or 1


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What the rewritten graph computes, then its structure."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    found, wanted = len(fused_calls(theirs)), wanted_calls(case)
    said = f"({found} fused, {wanted} to fuse)"
    if found > wanted:
        form = case.parameters["form"]
        name = "fused what another reads" if form.get("shared") else "no attention there"
        yield ("softmax over another dimension" if form.get("dimension") == -2 else name), said
        return
    if different := differs(case, original, theirs):
        yield reason(case, original, theirs, different), f"(what differs: {different})"
        return
    if found < wanted:
        yield "not all fused", said
    elif operations(theirs) > operations(original) - wanted:
        yield "left the old steps", f"({operations(original)} operations before, {operations(theirs)} after)"
    elif not evidence.values["fresh"]:
        yield "forgot recompile", ""
    elif "again" not in evidence.graphs or operations(decode(evidence.graphs["again"])) != operations(theirs):
        yield "not idempotent", ""


def differs(case: Case, original: fx.GraphModule, theirs: fx.GraphModule) -> str | None:
    """The first thing in which the graphs differ, beyond rounding, on two inputs."""
    for seed in (11, 12):
        if found := difference(original, theirs, inputs_of(case, seed), relative=1e-3, absolute=1e-4):
            return found
    return None


def reason(case: Case, original: fx.GraphModule, theirs: fx.GraphModule, different: str) -> str:
    """The mistake whose correction makes the graph right."""
    form = case.parameters["form"]
    calls = [arguments(node) for node in fused_calls(theirs)]
    if any(call.get("is_causal") for call in calls):
        return "took the mask for causal"
    if different == "does not run":
        return "key not turned back" if calls else "does not run"
    if form.get("masked", True) and any(call.get("attn_mask") is None for call in calls):
        return "lost the mask"
    scale = form.get("scale", "times")
    number = form.get("number") or 1 / math.sqrt(WIDTH // HEADS)
    effective = number if scale in ("times", "divided") else 1.0
    if case.parameters["kind"] != "block" or not calls:
        return "something else"
    if differs(case, original, with_scale(theirs, effective)) is None:
        if scale == "divided" and any(math.isclose(call.get("scale") or 0, 1 / number, rel_tol=1e-3) for call in calls):
            return "inverted the scale"
        return {"": "scaled where there was no scale", "query": "scaled twice"}.get(scale, "forgot the scale")
    return "swapped the operands"


def arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call of the fused operator, by name."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    return dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def with_scale(graph_module: fx.GraphModule, scale: float) -> fx.GraphModule:
    """A copy in which each fused operator has this scale."""
    changed = copy.deepcopy(graph_module)
    for node in fused_calls(changed):
        node.kwargs = {**node.kwargs, "scale": scale}
    changed.recompile()
    return changed
