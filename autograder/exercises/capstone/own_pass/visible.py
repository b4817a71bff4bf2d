"""The learner's side: every pass that the package registers, on graphs that come in their JSON form."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import TYPE_CHECKING

from autograder.evidence import Case, Evidence
from autograder.graph_form import ENCODED_VALUE, EncodedGraph, GraphFormatError, decode, encode

if TYPE_CHECKING:
    from torch import fx


def visible_cases() -> list[Case]:
    """All traps, and random programs and models from a seed that everybody knows."""
    # The judge calls this; where the learner's code runs, what makes programs is not there.
    from autograder.exercises.capstone.own_pass.programs import VISIBLE_SEED, model_cases, random_cases, trap_cases

    return [*model_cases(VISIBLE_SEED), *random_cases(VISIBLE_SEED), *trap_cases()]


def probe(case: Case, registered_passes: Sequence[str]) -> Evidence:
    """Run the passes on the case's graph, in the order of their names, and then once more on the result.

    Values: `passes` (names), `tolerance`, `keeps_gradients` (of those together), `changed` (what they say of the first
    run). Graphs: `after`, `again`.
    """
    from fxopt_core.passes import GraphEditor, make_pass

    evidence = Evidence({"passes": list(registered_passes)})
    passes = [make_pass(name) for name in registered_passes]
    if not passes:
        return evidence
    evidence.values["tolerance"] = max(max(one.tolerance.relative, one.tolerance.absolute) for one in passes)
    evidence.values["keeps_gradients"] = all(one.keeps_gradients for one in passes)
    graph_module = decode(EncodedGraph(case.parameters["graph"], case.tensors))
    restore_examples(graph_module)
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


def restore_examples(graph_module: fx.GraphModule) -> None:
    """Give the nodes example values (`meta["val"]`) again where the JSON form kept shapes, as a capture would.

    Inputs are taken to be contiguous. A graph that does not run on its inputs gets none: some traps raise always.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    nodes = list(graph_module.graph.nodes)
    kept = [node.meta.get(ENCODED_VALUE) for node in nodes if node.op == "placeholder"]
    sizes = [value.get("shape", [""]) if isinstance(value, dict) else [""] for value in kept]
    if not all(type(size) is int for shape in sizes for size in shape):
        return
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        inputs = [torch.empty(value["shape"], dtype=getattr(torch, value["dtype"])) for value in kept]
    copied = copy.deepcopy(graph_module)
    try:
        # The graph may switch the modes; these put them back.
        with torch.enable_grad(), torch.autocast("cpu", enabled=False), mode, redirect_stderr(io.StringIO()):
            FakeTensorProp(copied, mode).run(*inputs, enable_io_processing=False)
    except Exception:  # whatever an operator raises on these shapes
        return
    for node, known in zip(nodes, copied.graph.nodes, strict=True):
        if ENCODED_VALUE in node.meta and "val" in known.meta:
            node.meta["val"] = known.meta["val"]
