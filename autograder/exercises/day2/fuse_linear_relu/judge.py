"""What a right fusion is: one operator for each legal pair, for every batch, and after every training step."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.day2.fold_constants.judge import trained
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import COMMON, difference, stale, unusable
from fxopt_core.graphs import operation_name

FUSED = torch.ops.aten._addmm_activation.default
LAYERS, ACTIVATIONS = ("Linear", "linear"), ("relu", "ReLU")

MISCONCEPTIONS = COMMON | {
    "fused what another reads": (
        "You fused a layer whose result another node still reads, or which is returned: that one now gets the value "
        "after the ReLU, or nothing."
    ),
    "computed the layer twice": (
        "You fused a layer whose result somebody else reads. That reader still needs the layer, so it is now computed "
        "twice: leave this layer alone."
    ),
    "three dimensions": (
        "You fused a layer with an input of three dimensions: `_addmm_activation` multiplies matrices only. The "
        "example inputs tell how many dimensions there are."
    ),
    "another activation": "You fused an activation that is no ReLU: the operator would compute another function.",
    "hard-coded a shape": (
        "With another batch size your graph fails, or computes something else: a size of the example got into it."
    ),
    "froze the weights": (
        "After a training step your graph still computes with the old weights: it must read the parameters of the "
        "layer, not copies."
    ),
    "lost the bias": "Without the bias the layer is another one: it is the first argument of the operator.",
    "weights not transposed": (
        "A linear layer multiplies with its weight transposed: `x @ weight.t() + bias`. With a square weight nothing "
        "fails, and the result is wrong."
    ),
    "only one form": "A ReLU can be a function or a module; one of the two is still there behind its layer.",
    "nothing fused": "A layer with a ReLU behind it, which could be fused, is still two nodes.",
    "left the old nodes": "The operator is there, but so are the nodes that it stands for: erase them.",
    "something else": "The fused graph computes something else than the original.",
}

BY_TRAP = {"read twice": "fused what another reads", "dimensions": "three dimensions", "others": "another activation"}


def hidden_cases(random: Random) -> list[Case]:
    """Random widths; each trap among layers that can be fused."""
    cases = []
    for trap in ("plain", "shared", "read twice", "dimensions"):
        width, last = random.randint(3, 8), random.randint(2, 6)
        state = {
            "one": f"nn.Linear(4, {width})",
            "two": f"nn.Linear({width}, {width})",
            "last": f"nn.Linear({width}, {last})",
            "act": "nn.ReLU()",
        }
        first, second = random.sample(["torch.relu({})", "self.act({})"], 2)
        body, fused = f"h = {first.format('self.one(x)')}\n", 2
        if trap == "shared":
            body += f"g = {second.format('self.two(h)')}\nreturn self.last({first.format('self.two(g)')})"
            fused = 3
        elif trap == "read twice":
            body += f"g = self.two(h)\nreturn self.last({second.format('g')}), g.sum()"
            fused = 1
        elif trap == "dimensions":
            body += f"return {second.format('self.last(h)')}"
            fused = 0
        else:
            body += f"return F.silu(self.last({second.format('self.two(h)')}))"
        shape = (2, 3, 4) if trap == "dimensions" else (3, 4)
        seed = random.randrange(2**31)
        cases.append(program(f"hidden {trap}", body, state=state, inputs=(shape,), trap=trap, fused=fused, seed=seed))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The values, with other batches and other weights; then how much was fused."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    given = inputs_of(case, 11)
    other_batch = [torch.cat([value, value[:1] * 2]) for value in given]
    different = difference(original, theirs, given, relative=1e-4, absolute=1e-5)
    if different:
        yield _explain(case, theirs), f"(what differs: {different})"
        return
    if difference(original, theirs, other_batch, relative=1e-4, absolute=1e-5):
        yield "hard-coded a shape", ""
        return
    if difference(trained(original), trained(theirs), given, relative=1e-4, absolute=1e-5):
        yield "froze the weights", ""
        return
    fused, wanted = sum(node.target is FUSED for node in all_nodes(theirs)), case.parameters["fused"]
    if fused < wanted:
        yield ("only one form" if fused else "nothing fused"), f"({fused} of {wanted})"
        return
    if fused > wanted and case.parameters["trap"] == "read twice":
        yield "computed the layer twice", f"({fused} fused, at most {wanted} may be)"
        return
    if any(_count(theirs, names) > _count(original, names) - fused for names in (LAYERS, ACTIVATIONS)):
        yield "left the old nodes", ""
        return
    if problem := stale(evidence, theirs):
        yield problem


def _count(graph_module: fx.GraphModule, names: tuple[str, ...]) -> int:
    """How many nodes are operations of these names."""
    calls = (node for node in all_nodes(graph_module) if node.op.startswith("call"))
    return sum(operation_name(node) in names for node in calls)


def _explain(case: Case, theirs: fx.GraphModule) -> str:
    """The mistake that gives these values: by trap, else by what the fused operators are given."""
    if case.parameters["trap"] in BY_TRAP:
        return BY_TRAP[case.parameters["trap"]]
    for node in all_nodes(theirs):
        if node.target is FUSED:
            bias, _, weight = node.args
            if isinstance(bias, fx.Node) and not (bias.op == "get_attr" and str(bias.target).endswith("bias")):
                return "lost the bias"
            if isinstance(weight, fx.Node) and weight.op == "get_attr" and str(weight.target).endswith("weight"):
                return "weights not transposed"
    return "something else"
