"""The learner's side: every pass that the package registers, on graphs that come in their JSON form."""

from __future__ import annotations

from collections.abc import Sequence

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, decode, encode
from autograder.exercises.capstone.examples import restore_examples


def visible_cases() -> list[Case]:
    """All traps, and random programs and models from a seed that everybody knows."""
    # The judge calls this; where the learner's code runs, what makes programs is not there.
    from autograder.exercises.capstone.own_pass.programs import VISIBLE_SEED, model_cases, random_cases, trap_cases

    return [*model_cases(VISIBLE_SEED), *random_cases(VISIBLE_SEED), *trap_cases()]


def probe(case: Case, registered: Sequence[str]) -> Evidence:
    """Run the passes on the case's graph, in the order of their names, and then once more on the result.

    Values: `passes` (names), `tolerance`, `keeps_gradients` (of those together), `changed` (what they say of the first
    run). Graphs: `after`, `again`.
    """
    from fxopt_core.passes import GraphEditor, make_pass

    evidence = Evidence({"passes": list(registered)})
    passes = [make_pass(name) for name in registered]
    if not passes:
        return evidence
    evidence.values["tolerance"] = max(max(one.tolerance.relative, one.tolerance.absolute) for one in passes)
    evidence.values["keeps_gradients"] = all(one.keeps_gradients for one in passes)
    graph_module = decode(EncodedGraph(case.parameters["graph"], case.tensors))
    restore_examples(graph_module, case.parameters.get("strides"))
    for name in ("after", "again"):
        changed = False
        for one in passes:
            editor = GraphEditor(graph_module)
            changed |= one.run(editor).changed
            editor.finish()
        evidence.values.setdefault("changed", changed)
        try:
            evidence.graphs[name] = encode(graph_module)
        except GraphFormatError as error:
            evidence.values["cannot travel"] = str(error)[:500]
            break
    return evidence
