"""What may be merged is merged, and nothing else: the graph does the same with as few operations as can be."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, own_nodes
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import COMMON, difference, operations, stale, unusable
from fxopt_core.passes import run_pass

MISCONCEPTIONS = COMMON | {
    "nothing merged": "Two nodes that compute the same from the same are still two.",
    "left the duplicate": (
        "The duplicate is still there, though nobody reads it: after `replace_all_uses_with`, erase it."
    ),
    "first level only": (
        "You merged two equal nodes, but not the two nodes that became equal by that. Compare arguments *after* what "
        "they stand for was merged, in one walk along the graph."
    ),
    "order of keywords": (
        "`f(min=0, max=1)` and `f(max=1, min=0)` are the same call; your key depends on the order of the keywords."
    ),
    "lists not compared": "Two equal calls that hold their values in a list are still two: look into lists, too.",
    "one module twice": "The same module, called twice on the same value in evaluation mode, gives the same: merge it.",
    "compared modules by class": (
        "You merged calls of two different modules. Two `Linear` have two weights: what a `call_module` node calls is "
        "the module at its path, not its class."
    ),
    "ignored keywords": "You merged two calls with different keyword arguments: `dim=0` is not `dim=1`.",
    "equal literals": (
        "You merged `x + 1`, `x + 1.0` or `x + True`. Python says `1 == 1.0 == True`, and a dictionary takes them for "
        "one key; the dtype of the result says otherwise. Put the type into the key (and mind `0.0` and `-0.0`)."
    ),
    "merged two draws": "You merged two random draws: they are two different values, and each moves the random stream.",
    "merged in training": (
        "You merged two calls of a module in training: each call updates its statistics, so that one is not two."
    ),
    "merged across a write": (
        "You merged two equal expressions between which their input was written, perhaps through a view. The same "
        "expression of another content is another value."
    ),
    "merged what is written": (
        "You merged two equal values of which one is written later: the write now reaches whoever reads the other one."
    ),
    "merged what is returned": (
        "You made two returned tensors into one. The caller may write into either, and must not see it in the other."
    ),
    "something else": "The merged graph computes something else than the original.",
}

BY_TRAP = {
    "modules": "compared modules by class",
    "keywords": "ignored keywords",
    "literals": "equal literals",
    "draws": "merged two draws",
    "training": "merged in training",
    "write between": "merged across a write",
    "written": "merged what is written",
    "returned": "merged what is returned",
}
UNMERGED = {
    "levels": "first level only",
    "order": "order of keywords",
    "lists": "lists not compared",
    "modules": "one module twice",
}


def hidden_cases(random: Random) -> list[Case]:
    """Each kind of trap once more, with other operations and numbers."""
    f, g, h = random.sample(["torch.exp", "torch.sin", "torch.cos", "F.softplus", "F.silu", "torch.atan"], 3)
    number = round(random.uniform(0.2, 2.0), 3)
    whole = random.randint(2, 9)
    bodies = {
        "levels": f"a = {f}({g}(x * {number}))\nb = {f}({g}(x * {number}))\nreturn {h}(a) - {h}(b) * {whole}",
        "literals": f"return (x * {whole}).float(), (x * {whole}.0).double(), x * {whole}",
        "keywords": f"a = {f}(x).sum(dim=0, keepdim=True)\nb = {f}(x).sum(dim=1, keepdim=True)\nreturn a - b",
        "draws": f"a = torch.rand_like(x)\nb = torch.rand_like(x)\nreturn {f}(a) - {g}(b) * {number}",
        "write between": f"h = {f}(x)\nv = h.t()\na = {g}(h)\nv.mul_({number})\nb = {g}(h)\nreturn a - b",
        "written": f"a = {f}(x)\nb = {f}(x)\nc = b.view(-1)\nc.add_({whole}.0)\nreturn {g}(a) - b",
        "returned": f"a = {g}(x)\nb = {f}(x)\nc = {f}(x)\nreturn b.view(-1), a, c, {f}(x).sum() * {number}",
    }
    return [
        program(
            f"hidden {trap}",
            body,
            inputs=([[3, 3], "int64"],) if trap == "literals" else ((3, 3),),
            trap=trap,
            seed=random.randrange(2**31),
        )
        for trap, body in bodies.items()
    ]


def least(case: Case) -> int:
    """How many operations a careful elimination leaves."""
    graph_module = build(case)
    for node in own_nodes(graph_module):
        node.kwargs = dict(sorted(node.kwargs.items()))  # the pass compares keywords in their order
    run_pass("common_subexpressions", graph_module)
    return operations(graph_module)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What must not have been merged, then what should have been."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    trap = case.parameters["trap"]
    different = next(filter(None, (difference(original, theirs, inputs_of(case, seed)) for seed in (11, 12))), None)
    if different:
        yield BY_TRAP.get(trap, "something else"), f"(what differs: {different})"
        return
    left, wanted = operations(theirs), least(case)
    if left > wanted:
        unread = any(node.op.startswith("call") and not node.users for node in all_nodes(theirs))
        untouched = left == operations(original)
        # Two draws, say, that stay two are right; a missing merge beside them is a missing merge.
        kind = UNMERGED.get(trap, "nothing merged")
        if unread and trap in ("twice", "levels", "order", "lists", "modules"):
            kind = "left the duplicate"
        elif trap == "levels" and untouched:
            kind = "nothing merged"
        yield kind, f"({left} operations left, {wanted} are needed)"
        return
    if problem := stale(evidence, theirs):
        yield problem
