"""The judge: is each figure the one that is counted, is what cannot be known named, and is more told than before?"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from autograder.capstone.template.own_cost.my_capstone.count_products import cost as template_cost
from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import all_nodes, placeholders
from autograder.exchange.verdict import one_line
from autograder.exercises.capstone.examples import restore_examples
from autograder.exercises.capstone.own_cost.programs import cases_from, graph_of, inputs_of
from autograder.exercises.capstone.own_pass.judge import REGISTERS_NOTHING
from fxopt_core.costs import Cost, analyze_graph

HIDDEN_SEEDS = 1

Told = dict[str, tuple[int, int] | None]
"""FLOPs and bytes of nodes by name, `None` where they are not known."""

MISCONCEPTIONS = {
    "registers nothing": REGISTERS_NOTHING,
    "registers several": "Your package registers several cost tools. A capstone is one: register the one that counts.",
    "no figures": (
        "Your tool must return a dictionary: the name of each node that calls something, and a pair of whole numbers "
        "(FLOPs, bytes), or `None` where they are not known."
    ),
    "node left out": (
        "Your tool says nothing of a node that calls something. Leave none out: `None` tells the reader that a cost is "
        "missing, an absent line does not."
    ),
    "custom operator guessed": (
        "Your tool gives figures for a custom operator. What it does, nobody can read in the graph; a zero among the "
        "figures looks as if it were counted. Answer `None` for operators that are not PyTorch's own."
    ),
    "multiply-add is two": (
        "Your FLOPs are half of what is counted: a multiplication and an addition are two operations."
    ),
    "forgot the batch": "Your FLOPs are those of one matrix, and the operator multiplies a whole batch of them.",
    "forgot the groups": (
        "Your FLOPs of a convolution in groups are too many: each output channel reads the channels of its own group "
        "only. The weight's shape tells how many these are."
    ),
    "view moves nothing": (
        "Your tool counts bytes for a node that returns a view: a view reads and writes no element."
    ),
    "assumed four bytes": (
        "Your bytes are right for float32 only. `tensor.element_size()` says how many bytes an element takes."
    ),
    "wrong FLOPs": (
        "FLOPs of a node differ from what is counted. Counted are matrix products, convolutions and attention, two for "
        "each multiply-add; everything else has none."
    ),
    "wrong bytes": (
        "Bytes of a node differ from what is counted: each operand is read once, each result written once; of a table "
        "only the rows that are looked up are read, and of an expanded dimension only one element lies in memory."
    ),
}


def hidden_cases(source: random.Random) -> list[Case]:
    """Models of all families, in sizes and dtypes that nobody has seen."""
    return [case for _ in range(HIDDEN_SEEDS) for case in cases_from(f"{source.getrandbits(64):x}")]


def counted(case: Case) -> dict[str, Cost]:
    """What each node costs, found by running the graph on fake tensors: see `fxopt_core.costs`."""
    graph_module = graph_of(case)
    for node, value in zip(placeholders(graph_module), inputs_of(case), strict=True):
        node.meta["val"] = value
    return {node.name: node.cost for node in analyze_graph(graph_module).nodes}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | dict[str, Any]]:
    """Every figure that is wrong, and how much more is told than by the template's tool."""
    values = evidence.values
    if len(values["tools"]) != 1:
        yield ("registers several" if values["tools"] else "registers nothing"), ""
        return
    if "returned" in values:
        yield "no figures", f"(it returned {one_line(values['returned'], 60)}, or something else for a node)"
        return
    told: Told = {name: None if cost is None else (cost[0], cost[1]) for name, cost in values["costs"].items()}
    graph_module = graph_of(case)
    restore_examples(graph_module)
    truth = counted(case)
    nodes = {node.name: node for node in all_nodes(graph_module)}
    wrong = False
    for name, cost in truth.items():
        for misconception, detail in _wrong(nodes[name], cost, told):
            wrong = True
            yield misconception, f"(`{name}`, which calls {nodes[name].target}: {detail})"
    if not wrong:
        known = {name: cost for name, cost in truth.items() if not cost.uncounted}
        before, after = (_shares(known, figures) for figures in (template_cost(graph_module), told))
        gain = sum(after[figure] - before[figure] for figure in before) / len(before)
        yield {"changed": any(told.values()), "before": before, "after": after, "gain": gain, "seconds": {}}


def _shares(truth: dict[str, Cost], told: Told) -> dict[str, float]:
    """Which share of all FLOPs and of all bytes is told."""
    shares = {}
    for place, figure in enumerate(("FLOPs", "bytes")):
        whole = {name: (cost.flops, cost.bytes)[place] for name, cost in truth.items()}
        found = sum(size for name, size in whole.items() if told.get(name) is not None)
        shares[f"{figure} told"] = found / sum(whole.values()) if sum(whole.values()) else 1.0
    return shares


def _wrong(node: fx.Node, cost: Cost, told: Told) -> Iterator[tuple[str, str]]:
    if node.name not in told:
        yield "node left out", "no line"
        return
    figures = told[node.name]
    if figures is None:
        return
    flops, moved = figures
    if cost.uncounted:
        yield "custom operator guessed", f"{flops:,} FLOPs and {moved:,} bytes instead of None"
        return
    if flops != cost.flops:
        yield _why_flops(node, flops, cost.flops), f"{flops:,} FLOPs instead of {cost.flops:,}"
    if moved != cost.bytes:
        yield _why_bytes(node, moved, cost.bytes), f"{moved:,} bytes instead of {cost.bytes:,}"


def _why_flops(node: fx.Node, told: int, counted: int) -> str:
    example = node.meta.get("val")
    shape = example.shape if isinstance(example, torch.Tensor) else torch.Size()
    groups = node.args[-1] if "convolution" in str(node.target) else 1
    if 2 * told == counted:
        return "multiply-add is two"
    if isinstance(groups, int) and groups > 1 and told == groups * counted:
        return "forgot the groups"
    if len(shape) > 2 and shape[0] > 1 and told * shape[0] == counted:
        return "forgot the batch"
    return "wrong FLOPs"


def _why_bytes(node: fx.Node, told: int, counted: int) -> str:
    example = node.meta.get("val")
    if not counted:
        return "view moves nothing"
    if isinstance(example, torch.Tensor) and told * example.element_size() == 4 * counted:
        return "assumed four bytes"
    return "wrong bytes"
