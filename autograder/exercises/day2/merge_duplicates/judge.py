"""What may be merged is merged, and nothing else: the graph does the same with as few operations as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import original_of
from autograder.exercises.day2.merge_duplicates.cases import composed, hidden_cases
from autograder.exercises.day2.merge_duplicates.oracle import (
    counted,
    least,
    left_of,
    merged,
    seen_of,
    shown_little,
    shown_much,
    too_little,
    too_much,
    unread,
)
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    stale,
    unusable,
)

__all__ = ["MISCONCEPTIONS", "UNNAMED", "composed", "hidden_cases", "judge"]

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
    "lists not compared": (
        "Two equal calls that hold their values in a list are still two: look into lists, and let a merged node count "
        "as its stand-in there, too."
    ),
    "slices not compared": (
        "Two equal calls whose arguments hold a slice are still two: `x[1:n]` holds a `slice`, whose parts may be "
        "nodes."
    ),
    "one module twice": "The same module, called twice on the same value in evaluation mode, gives the same: merge it.",
    "methods not merged": "Two equal calls of a method are still two: a method is a call like any other.",
    "functions not merged": "Two equal calls of a function are still two.",
    "forgot too often": (
        "Two equal nodes are still two, though nothing was written between them: an assertion or a draw changes no "
        "value that was computed before it."
    ),
    "merged too little": "Two nodes that compute the same from the same, with nothing between them, are still two.",
    "compared modules by class": (
        "You merged calls of two different modules. Two `Linear` have two weights: what a `call_module` node calls is "
        "the module at its path, not its class."
    ),
    "ignored keywords": "You merged two calls with different keyword arguments: `dim=0` is not `dim=1`.",
    "equal literals": (
        "You merged `x + 1`, `x + 1.0` or `x + True`. Python says `1 == 1.0 == True`, and a dictionary takes them for "
        "one key; the dtype of the result says otherwise. Put the type into the key (and mind `0.0` and `-0.0`)."
    ),
    "lists are no tuples": (
        "You merged `x[[0, 1]]` and `x[0, 1]`: the first holds a list (two rows), the second a tuple (one element). "
        "Which kind of container an argument is belongs into the key."
    ),
    "merged two draws": "You merged two random draws: they are two different values, and each moves the random stream.",
    "merged an effect": (
        "You merged two calls that do something besides computing, such as two equal assertions: what has an effect "
        "(`effects_of(node).observable`) stays as often as it is there."
    ),
    "merged in training": (
        "You merged two calls of a module in training: each call updates its statistics, so that one is not two."
    ),
    "merged across a write": (
        "You merged two equal expressions between which their input was written, perhaps through a view. The same "
        "expression of another content is another value."
    ),
    "merged across a switch": (
        "You merged two equal expressions between which a mode was switched (gradients, autocast): in another mode the "
        "same expression has another dtype, or no gradient. `effects_of(node).context` knows the switches."
    ),
    "merged across the unknown": (
        "You merged two equal expressions between which something ran of which nothing is known "
        "(`effects_of(node).opaque`): it may have changed anything, here what flows back as gradient."
    ),
    "merged what is written": (
        "You merged two equal values of which one is written later: the write now reaches whoever reads the other one."
    ),
    "merged what is returned": (
        "You made two returned tensors into one. The caller may write into either, and must not see it in the other."
    ),
    "found something else": (
        "`find_duplicates` does not tell what `merge_duplicates` needs: a dictionary from each node that can go to an "
        "earlier node that can stand in for it, for all of them."
    ),
    "changed while looking": "`find_duplicates` changed the graph: it only looks.",
    "something else": "The merged graph computes something else than the original.",
}

UNNAMED = ("something else", "merged too little", "found something else")


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What must not have been merged, then what should have been, then what `find_duplicates` says."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = original_of(case), decode(evidence.graphs["graph"])
    size = len(own_nodes(original.graph_module))
    found = behaviour(theirs, original.calls)
    if different := first_difference(original.behaviour, found):
        fits = tuple(name for name, seen in too_much(case).items() if not first_difference(seen, found))
        yield Deviation("something else", fits, f"({different})", size)
        return
    yield Agreement("something else", partial(shown_much, case))
    left, wanted = operations(theirs), least(case)
    if left > wanted:
        figures = f"({left} operations left, {wanted} are needed)"
        there = counted(theirs)
        if unread(theirs) - unread(original.graph_module) == counted(original.graph_module) - left_of(case):
            yield "left the duplicate", figures
            return
        fits = tuple(name for name, other in too_little(case).items() if other == there)
        yield Deviation("merged too little", fits, figures, size)
        return
    yield Agreement("merged too little", partial(shown_little, case))
    acting = Counter((node.op, node.target) for node, seen in seen_of(case).items() if seen.acts)
    if missing := acting - counted(theirs):
        yield "merged an effect", f"(expected to stay: {', '.join(str(target) for _, target in missing)})"
        return
    if changed := changed_modules(original.graph_module, theirs):
        yield "changed the model", f"({changed})"
        return
    if problem := stale(evidence, theirs):
        yield problem
        return
    if evidence.values["old code"]:
        yield "forgot recompile", "(in a second run, where there was nothing to do: the graph may have changed before)"
        return
    yield from _found(case, evidence)


def _found(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the answer of `find_duplicates`."""
    original, pairs = original_of(case), evidence.values["found"]
    if str(decode(evidence.graphs["looked at"]).graph) != str(original.graph_module.graph):
        yield "changed while looking", ""
        return
    order = [node.name for node in own_nodes(original.graph_module)]
    if not isinstance(pairs, list) or not all(
        node in order and first in order and order.index(first) < order.index(node) for node, first in pairs
    ):
        yield "found something else", f"(it gave {str(pairs)[:100]})"
        return
    applied = merged(original.graph_module, dict(pairs))
    if different := first_difference(original.behaviour, own_behaviour(applied, original.calls)):
        yield "found something else", f"(merged as it says, the graph is another one; {different})"
    elif operations(applied) > least(case):
        yield (
            "found something else",
            f"(merged as it says, {operations(applied)} operations are left, not {least(case)})",
        )
