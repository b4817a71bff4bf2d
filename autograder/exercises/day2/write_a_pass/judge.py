"""What a right pass is: it looks without touching, rewrites through the editor, refuses with a reason, and is known."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.day2.merge_duplicates.judge import least
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import difference, operations
from fxopt_core.graphs.effects import effects_of

MISCONCEPTIONS = {
    "no pass": "Your class must be a subclass of `OptimizationPass`.",
    "not registered": (
        "The pass is not known by its name: put `@register_pass('my_merging')` over the class, so that others can ask "
        "for it by name."
    ),
    "touched while looking": (
        "`analyze` changed the graph. It only finds opportunities; verification runs a pass again without one of its "
        "rewrites, and must know them all beforehand."
    ),
    "nothing merged": "After the pass equal nodes are still two: `transform` has to take the opportunity it is given.",
    "one at a time": "A second run found more to do: `analyze` must find all opportunities at once.",
    "bypassed the editor": (
        "The graph is rewritten, but not every node that went is in the editor's log: change the graph through "
        "`editor.replace`, so that the report can name them all."
    ),
    "merged draws": "You merged two random draws, which are two different values.",
    "no refusals": (
        "A draw looks like an opportunity and is none: refuse it with `analysis.refuse(node, reason)`, each one."
    ),
    "refused without a reason": "A refusal without a reason helps nobody: say in a few words why the place was left.",
    "refused too much": "You refused nodes that are no draws: only these look like opportunities and are none.",
    "not optimised": "Run by `GraphOptimizer`, your pass leaves more operations than by hand.",
    "something else": "The graph computes something else after your pass.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Random numbers of duplicates and draws."""
    cases = []
    for number in range(3):
        f, g = random.sample(["torch.exp", "torch.sin", "torch.cos", "F.softplus", "torch.atan"], 2)
        copies, draws = random.randint(2, 4), random.randint(1, 3)
        lines = [f"a{i} = {f}({g}(x))" for i in range(copies)] + [f"d{i} = torch.rand_like(x)" for i in range(draws)]
        random.shuffle(lines)
        values = [f"a{i}.tanh()" if i else "a0" for i in range(copies)] + [f"d{i}" for i in range(draws)]
        lines.append(f"return {' - '.join(values)}")
        cases.append(program(f"hidden {number}", "\n".join(lines), seed=random.randrange(2**31)))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the pass, the most telling first."""
    values = evidence.values
    if not values["is_pass"]:
        yield "no pass", ""
        return
    original, wanted = build(case), least(case)
    draws = {node.name for node in all_nodes(original) if effects_of(node).random}
    if operations(decode(evidence.graphs["looked at"])) != operations(original):
        yield "touched while looking", ""
        return
    theirs = decode(evidence.graphs["graph"])
    if different := difference(original, theirs, inputs_of(case, 11)):
        yield ("merged draws" if draws else "something else"), f"(what differs: {different})"
        return
    if operations(theirs) == operations(original) > wanted:
        yield "nothing merged", f"({operations(theirs)} operations before and after)"
        return
    if values["again"] or operations(theirs) > wanted:
        yield "one at a time", f"({values['again']} more rewrites in a second run)"
        return
    merged = operations(original) - wanted
    if len(values["rewrites"]) != merged or not all(removed for _, removed in values["rewrites"]):
        yield "bypassed the editor", f"({_logged(values['rewrites'], merged)})"
        # No return: whether draws are refused is another question, which `analyze` answers.
    refused = {name for name, _ in values["refusals"]}
    if not draws <= refused:
        yield "no refusals", f"(draws: {', '.join(sorted(draws))})"
        return
    if refused - draws:
        yield "refused too much", f"({', '.join(sorted(refused - draws))})"
        return
    if any(len(reason.split()) < 3 for _, reason in values["refusals"]):
        yield "refused without a reason", ""
        return
    if not values["registered"]:
        yield "not registered", ""
        return
    if operations(decode(evidence.graphs["optimized"])) != wanted:
        yield "not optimised", ""


def _logged(rewrites: list[list[Any]], merged: int) -> str:
    """In words how many nodes went, and which of them the log names."""
    named = [node for node, removed in rewrites if removed]
    unnamed = [node for node, removed in rewrites if not removed]
    went = f"{merged} {'node' if merged == 1 else 'nodes'} went, and the log has {len(named)} of them"
    return went + (f"; for {', '.join(unnamed)} it says that nothing was removed" if unnamed else "")
