"""The learner's side: programs with duplicates and draws, a run of the pass by hand and one by `GraphOptimizer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode
from autograder.exercises.day2.programs import build, inputs_of, make_module, program, show_rewrite

NAME = "my_merging"
"""The name under which the learner's pass is to be registered."""


def visible_cases() -> list[Case]:
    """Duplicates, duplicates of duplicates, draws, and nothing to do."""
    return [
        program("two duplicates", "a = torch.exp(x)\nb = torch.exp(x)\nreturn a - b.tanh()"),
        program(
            "draws beside duplicates",
            "a = torch.rand_like(x)\nb = torch.rand_like(x)\nc = torch.sin(x)\nd = torch.sin(x)\n"
            "return torch.sub(a, b) - torch.sub(c, d.tanh())",
        ),
        program(
            "duplicates of duplicates",
            "a = torch.exp(x)\nb = torch.exp(x)\nc = torch.neg(a)\nd = torch.neg(b)\nreturn torch.mul(c, d.tanh())",
        ),
        program("nothing to do", "return torch.relu(x) - torch.exp(x)"),
    ]


def probe(case: Case, merge_pass: Any) -> Evidence:
    """Look for opportunities, run the pass on a graph, once more without one of them, then let the optimiser run it."""
    from fxopt_core.optimizer import GraphOptimizer
    from fxopt_core.passes import Analysis, GraphEditor, OptimizationPass, make_pass, pass_names

    if not issubclass(merge_pass, OptimizationPass):
        return Evidence({"is_pass": False})
    evidence = Evidence({"is_pass": True, "registered": NAME in pass_names()})
    looked_at = build(case)
    one_pass = merge_pass()
    found = one_pass.analyze(GraphEditor(looked_at))
    evidence.values["is_analysis"] = isinstance(found, Analysis)
    if not isinstance(found, Analysis):
        return evidence
    evidence.graphs["looked at"] = encode(looked_at)
    evidence.values["opportunities"] = [str(opportunity.node) for opportunity in found.opportunities]
    evidence.values["stand-ins"] = [str(opportunity.data) for opportunity in found.opportunities]
    evidence.values["refusals"] = [[str(name), str(reason)] for name, reason in found.refusals]
    second = one_pass.analyze(GraphEditor(build(case)))
    evidence.values["second look"] = [str(opportunity.node) for opportunity in second.opportunities]
    evidence.values["refused then"] = [str(name) for name, _ in second.refusals]
    if found.opportunities:
        # Another pass than the one that looked takes a place: all that it knows is the opportunity.
        alone = build(case)
        editor = GraphEditor(alone)
        last = merge_pass().analyze(editor).opportunities[-1]
        with editor.rewrite(NAME, last.node):
            merge_pass().transform(editor, last)
        editor.finish()
        evidence.graphs["alone"] = encode(alone)
    if given := case.parameters.get("given"):
        # After the look an earlier node becomes equal, too: what was found says still which node stands in.
        told = build(case)
        editor = GraphEditor(told)
        for opportunity in merge_pass().analyze(editor).opportunities:
            if str(opportunity.node) == given["node"]:
                make_equal(told, given)
                with editor.rewrite(NAME, opportunity.node):
                    merge_pass().transform(editor, opportunity)
                editor.finish()
                evidence.graphs["told"] = encode(told)
                break
    rewritten = build(case)
    editor = GraphEditor(rewritten)
    running = merge_pass()
    result = running.run(editor)
    editor.finish()
    evidence.graphs["graph"] = encode(rewritten)
    evidence.values["rewrites"] = [[rewrite.node, len(rewrite.before)] for rewrite in result.rewrites]
    later = running.analyze(GraphEditor(rewritten)).opportunities
    evidence.values["afterwards"] = [str(opportunity.node) for opportunity in later]
    evidence.values["again"] = len(merge_pass().run(GraphEditor(rewritten)).rewrites)
    if result.rewrites:
        without_one = build(case)
        editor = GraphEditor(without_one)
        merge_pass().run(editor, denied=[result.rewrites[0].key])
        editor.finish()
        evidence.graphs["without one"] = encode(without_one)
    if evidence.values["registered"] and case.parameters.get("by_optimizer", True):
        optimizer = GraphOptimizer(make_module(case), tuple(inputs_of(case, 5)), capture="symbolic_trace")
        optimized = optimizer.optimize([make_pass(NAME)]).module
        evidence.graphs["optimized"] = encode(optimized)  # type: ignore[arg-type]
    return evidence


def make_equal(graph_module: fx.GraphModule, given: Mapping[str, str]) -> None:
    """Let the node `changed` call what the node `node` calls."""
    nodes = {node.name: node for node in graph_module.graph.nodes}
    nodes[given["changed"]].target = nodes[given["node"]].target


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, the change, and what was refused."""
    refused = [f"  refused at {node}: {reason}" for node, reason in evidence.values.get("refusals", [])]
    return [*show_rewrite(case, evidence), *(["\n".join([f"{case.name}: refusals", *refused])] if refused else [])]
