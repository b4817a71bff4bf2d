"""What is constant is folded, and nothing else: the graph does the same, at every call and after a training step."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import COMMON, difference, operations, stale, unusable

MISCONCEPTIONS = COMMON | {
    "froze a draw": (
        "You folded a random draw: it now gives the same numbers at every call, and the random stream no longer moves."
    ),
    "folded a written buffer": (
        "You folded a value that is computed from a buffer which the graph itself writes: at the next call the buffer "
        "holds something else."
    ),
    "folded in training mode": (
        "You folded a parameter of a module in training: the optimiser will change it, and your constant will not know."
    ),
    "returned the constant itself": (
        "You fold a value that is returned: the caller gets the stored tensor itself, and what the caller writes into "
        "it stands in all later results."
    ),
    "folded what is written": (
        "You folded a value into which the graph writes afterwards: it now writes into the stored constant, and each "
        "call starts where the last one ended."
    ),
    "lost an argument": "Your constant was computed with other arguments than the node has, keywords included.",
    "overwrote a buffer": (
        "You stored a constant under a name that the model has already given to a buffer of its own, and that buffer "
        "is gone, without an error. Take a name that is free: go on while `hasattr(graph_module, name)`."
    ),
    "one name for two constants": "Two constants were stored under one name: the second has replaced the first.",
    "spared parameters": "In evaluation parameters do not change either: what depends on them alone can be folded.",
    "spared modules": "A module in evaluation that reads constants alone gives a constant: fold it, too.",
    "stopped halfway": (
        "An operation is left that reads nothing but constants: what was folded is a constant to its readers."
    ),
    "something else": "The folded graph computes something else than the original.",
}

BY_TRAP = {
    "draws": "froze a draw",
    "written buffer": "folded a written buffer",
    "training": "folded in training mode",
    "returned": "returned the constant itself",
    "written result": "folded what is written",
    "two": "lost an argument",
    "taken name": "overwrote a buffer",
}
TAKEN = {"taken": "torch.rand(4)"}
SPARED = {"parameters": "spared parameters", "modules": "spared modules"}


def hidden_cases(random: Random) -> list[Case]:
    """Each trap once more, with other operations and numbers."""
    f, g = random.sample(["torch.exp", "torch.sin", "torch.cos", "F.softplus", "torch.atan", "torch.abs"], 2)
    number, dim = round(random.uniform(0.5, 3.0), 3), random.choice([0, 1])
    weight = {"w": "torch.rand(4, 4)", "v": "torch.rand(4, 4)"}
    parameter = {"p": "nn.Parameter(torch.rand(4, 4))"}
    programs = {
        "chain": (f"c = {f}({g}(self.w * {number}) - {number})\nreturn {g}(x) @ c", weight, False, 2),
        "two": (
            f"a = {f}(self.w).sum(dim={dim}, keepdim=True)\nb = torch.clamp(self.v, max={number / 4:.3f})\n"
            "return (x @ b) * a.reshape(1, -1)",
            weight,
            False,
            2,
        ),
        "draws": (f"n = torch.bernoulli(self.w)\nreturn x @ {f}(n * {number})", weight, False, 4),
        "written buffer": (f"r = {f}(self.w)\nself.w.mul_({number})\nreturn x @ r", weight, False, 3),
        "training": (f"return x @ ({f}(self.p) * {number})", parameter, True, 3),
        "returned": (f"c = {f}(self.w)\nreturn x @ {g}(self.v), c.view(-1)", weight, False, 3),
        "taken name": (f"c = {f}({g}(self.w) * {number})\nreturn x @ c + self.taken", weight | TAKEN, False, 2),
        "size": (f"c = {f}(self.w * self.w.size({dim}))\nreturn x @ c * self.v.size({1 - dim})", weight, False, 6),
        "written result": (f"t = {f}(self.w)\nt[{dim}].mul_({number})\nreturn x @ t", weight, False, 4),
    }
    return [
        program(
            f"hidden {trap}",
            body,
            state=state,
            training=training,
            trap=trap,
            least=least,
            seed=random.randrange(2**31),
        )
        for trap, (body, state, training, least) in programs.items()
    ]


def trained(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A copy after what might be a training step: every parameter that is still there has another value."""
    copied = copy.deepcopy(graph_module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(0.5)
    return copied


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What must not have been folded, then what should have been."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    trap, least = case.parameters["trap"], case.parameters["least"]
    different = next(
        filter(None, (difference(original, theirs, inputs_of(case, s), absolute=1e-6) for s in (11, 12))), None
    )
    if different is None and case.parameters["training"]:
        different = difference(trained(original), trained(theirs), inputs_of(case, 11), absolute=1e-6)
    if different:
        kind = BY_TRAP.get(trap, "something else")
        stored = _attributes(theirs) - _attributes(original)
        if trap == "two" and len(stored) == 1:
            kind = "one name for two constants"
        yield kind, f"(what differs: {different})"
        return
    left = operations(theirs)
    if left > least:
        yield SPARED.get(trap, "stopped halfway"), f"({left} operations left, {least} are needed)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _attributes(graph_module: fx.GraphModule) -> set[str]:
    return {str(node.target) for node in all_nodes(graph_module) if node.op == "get_attr"}
