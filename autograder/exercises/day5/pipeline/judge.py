"""The judge's own pipeline, on inputs of its own, and the script of the stopwatch."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim, export
from torch.utils._pytree import tree_leaves

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode, run
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.composed import once_a_case
from autograder.exercises.day5.pipeline.visible import ROUNDS, UNCAPTURED, build, draw, operators_of, others_of
from autograder.exercises.day5.pipeline_passes import MORE_PASSES, PASSES
from autograder.exercises.graph_comparison import same

MISCONCEPTIONS = {
    "no report": (
        "Return the result and a report with `captured`, and with `kept`, `rejected`, `operations` and `seconds`, each "
        "a list: the last two of two numbers, also when nothing was captured."
    ),
    "capture ended everything": (
        "The exporter refused the model, and your pipeline ended with its error. A pipeline hands back the model as it "
        "is, and says so: `captured` is `False`."
    ),
    "pretended to capture": "This model has a branch on its data: say `captured: False`, and return the model itself.",
    "not captured": (
        "You say `captured: False`, and the exporter takes this model. Capture it with `example`: of the others one "
        "may have a single row, and the exporter takes a size of 1 for a constant."
    ),
    "denied the capture": (
        "You return a graph, and your report says that nothing was captured. Say `captured: True` where the exporter "
        "took the model."
    ),
    "batch became a number": (
        "You say that you captured this model. It goes through the rows of its input one by one, so that an exported "
        "graph serves one batch size only. `Dim.AUTO` makes a number of such a size without a word; ask for any size "
        'from 1 up (`Dim("batch", min=1)`), and the exporter refuses: say `captured: False`, and return the model.'
    ),
    "not the model itself": (
        "You say `captured: False`, and hand back another module than the one you were given. Return the caller's "
        "`model` itself, not a copy of it."
    ),
    "figures of nothing": (
        "You say `captured: False`, and report figures. Without a graph both lists are empty and all numbers 0."
    ),
    "a pass ended everything": (
        "One pass raised an error, and your pipeline ended with it. Reject that pass, and go on with the others."
    ),
    "model changed": (
        "After your pipeline the caller's model has other weights: an exported program shares them, and a pass wrote "
        "into them. Work on a copy of the model."
    ),
    "model left in another mode": (
        "After your pipeline the caller's model is in another mode (training or evaluation), or one of its modules is: "
        "each has a mode of its own. Switch a copy."
    ),
    "checked on the example only": (
        "You kept a pass that is right on the example only. Verify on the other inputs, too: that is what they are for."
    ),
    "checked on some of the others": (
        "You kept a pass that is right on the example and on some of the others, and wrong on another one. Verify on "
        "every one of them."
    ),
    "not checked on the example": (
        "You kept a pass that is right on every one of the others, and wrong on the example. Verify on the example, "
        "too: it is an input like them."
    ),
    "not every value compared": (
        "You kept a pass that spoils a few values, or moves values to other places. Compare value by value "
        "(`torch.allclose`): a sum, an average or one row does not tell."
    ),
    "kept what raised": "You kept a pass that raised an error.",
    "rounding taken for a mistake": (
        "You rejected a pass whose result differs in the last digits only. Compare with a tolerance (1e-4)."
    ),
    "kept a wrong pass": (
        "You kept a pass after which the graph computes something else than the model. Compare with the *model* in "
        "evaluation mode, on the example and on every one of the others."
    ),
    "took NaN for right": (
        "You kept a pass that makes NaN of numbers. Every comparison with NaN is false, so `difference > limit` finds "
        "nothing wrong: ask whether it is within the limit (`torch.allclose`)."
    ),
    "NaN taken for equal": (
        "You kept a pass though the model gives NaN on one of the inputs. There nobody can tell whether the pass is "
        "right: NaN equals nothing, and `torch.allclose` says so unless you ask for `equal_nan=True`."
    ),
    "joined the inputs": (
        "You kept a pass that is wrong on each of the inputs, and right on all of them joined into one batch. A graph "
        "may do something else for another batch size: compare on each input by itself."
    ),
    "compared by broadcasting": (
        "You kept a pass after which the result has another shape. Tensors of different shapes are broadcast before "
        "they are compared: look at the shapes, too."
    ),
    "compared with the graph before": (
        "You kept passes that are each right up to 1e-4, and together are not. Compare with the model each time, and "
        "not with the graph before the pass."
    ),
    "rejected a right pass": (
        "You rejected a pass that is right for this model. What a pass is called decides nothing: try it, and compare."
    ),
    "range with an end": (
        "Your result refuses a batch that is larger than any that you tried: the range of the exported batch has an "
        'end. The task asks for any size from 1 up: `Dim("batch", min=1)`.'
    ),
    "input written into": (
        "Some passes make the graph write into its input. You kept such a pass, or judged one that came later by what "
        "was left in the tensor. Hand the graph a copy of the input (`x.clone()`), each time: then the model, and "
        "every pass after this one, still gets the input as it was."
    ),
    "tried again": (
        "You kept a pass that failed when its turn came, and that is right after another one. Each pass is tried once, "
        "in the order of the dictionary: reject it then, and leave it at that."
    ),
    "stopped at the first rejection": "After a pass was rejected, your pipeline did not try those that come after it.",
    "never rejects": "Your report rejects none of the passes, or not by name, although one of them is wrong.",
    "no graph": "Return the graph module that the passes worked on; no other wrapping around it.",
    "froze the batch size": "Your result serves the batch size of the example only. Export with a dynamic batch.",
    "exported in training mode": (
        "Your result computes what the model computes in training. Export a copy in evaluation mode."
    ),
    "rejected pass left in": (
        "The report rejects a pass, but what it did is in the graph. A pass works in place, weights included: give it "
        "a copy, and take the copy only when it proves right."
    ),
    "computes something else": "Your result computes something else than the model in evaluation mode.",
    "passes left out": (
        "A pass is in neither of your two lists. Each one is kept or rejected, also one that finds nothing to change."
    ),
    "passes not applied": (
        "The passes that you report as kept are not in the graph that you return. They are written for graphs of ATen "
        "operators, as `torch.export` makes them."
    ),
    "wrong number of operations": (
        "`operations` is the number of `call_function` nodes, in the graph before all passes and in the result."
    ),
    "not measured as asked": (
        "Time the captured graph and the result: one warm-up call of `measure` for each, and then five each, "
        "*alternately*. This machine grows slower; what is timed last looks worse than it is."
    ),
    "timed the model": (
        "You timed the model itself. What a pass gains shows beside the *captured* graph, before all passes: time that "
        "one, and the result."
    ),
    "same graph timed twice": "Both of your times are of the same graph: keep the captured one as it was.",
    "warm-up counted": "Your figures contain the warm-up calls.",
    "mean instead of median": "You took the mean: one outlier moves it. Take the median.",
    "minimum instead of median": "You took the best run: it flatters. Take the median.",
    "wrong seconds": "`seconds` is the median of the timed calls, of the captured graph and of the result.",
}


ALL = ["layer", "sin", "norm", "relu", "dropout", "centre"]

FIXED: dict[str, tuple[list[str], list[str]]] = {
    "weights written, then wrong": (["layer", "sin"], ["double_weights", "fold_scale", "nudge"]),
    "weights written, then an error": (["layer", "relu"], ["break_after_writing", "fold_scale", "merge_relus"]),
    "refuses at once": (["relu", "layer"], ["refuse", "merge_relus", "drop_neutral"]),
    "changes nothing": (["sin", "relu"], ["leave_alone", "drop_neutral", "fold_scale"]),
    "abs behind relu": (["layer", "relu", "abs"], ["drop_abs", "merge_relus"]),
    "nothing to break": (["layer", "relu"], ["drop_abs", "merge_relus"]),
    "a hundredth": (["layer", "sin"], ["shift", "nudge"]),
    "not a number": (["layer", "sin", "centre"], ["make_undefined", "drop_neutral"]),
    "another shape": (["layer", "sin"], ["wrap", "fold_scale"]),
    "the example's batch": (["sin", "layer"], ["freeze_batch", "fold_scale"]),
    "another size": (["layer", "centre"], ["at_least_eight", "fold_scale"]),
    "sizes of the others": (["layer", "centre"], ["at_most_four", "at_least_three", "fold_scale"]),
    "wrong on the example only": (["layer", "relu"], ["lift", "drop_neutral", "merge_relus"]),
    "most values are right": (
        ["layer", "sin"],
        ["cut_above", "cut_below", "turn_rows", "turn_columns", "scratch", "fold_scale"],
    ),
    "statistics written": (["layer", "norm"], ["double_statistics", "drop_neutral", "fold_scale"]),
    "an error of another kind": (["sin", "layer"], ["lose_a_node", "fold_scale"]),
    "one after the other": (["layer", "sin"], ["drop_neutral", *(f"drift_{number}" for number in range(1, 7))]),
    "in training": (ALL, ["double_weights", "merge_relus", "fold_scale", "drop_neutral"]),
    "no passes": (["layer", "relu"], []),
    "not a number, as in the model": (["log", "relu"], ["drop_neutral", "merge_relus"]),
    "writes into its input": (
        ["abs", "relu", "layer"],
        ["clamp_input_1", "clamp_input_2", "drop_abs", "drop_neutral", "merge_relus"],
    ),
    "writes into the example": (["layer", "relu"], ["negate_input", "lift", "drop_neutral", "merge_relus"]),
    "right behind another one": (
        ["layer", "relu"],
        ["needs_no_zero", "assume_no_zero", "drop_neutral", "merge_relus"],
    ),
    "errors of large values": (["layer"], ["enlarge_more", "enlarge", "drop_neutral"]),
    "errors of small values": (["layer", "sin"], ["add_little", "nudge", "drop_neutral"]),
    "one row among the others": (["layer", "relu"], ["drop_neutral", "merge_relus"]),
    "a number for each row": (["layer", "relu", "total"], ["drop_neutral", "merge_relus"]),
}
"""Parts and passes of the cases that are the same for every seed."""

MORE: dict[str, dict[str, Any]] = {"one row among the others": {"others": [[1, 2], [5, 3]]}}
"""Further entries of these cases."""

IN_TRAINING = ("in training", "another shape")


def hidden_cases(random: Random) -> list[Case]:
    """Other models, made of parts and passes in random order."""
    cases = []
    for number in range(3):
        parts = ["layer", "sin", "abs", "relu", "norm", "dropout", "centre"]
        passes = list(PASSES)
        random.shuffle(parts)
        random.shuffle(passes)
        given: dict[str, Any] = {
            "width": random.randint(3, 7),
            "training": random.random() < 0.5,
            "seed": random.randrange(2**31),
        }
        cases.append(Case(f"hidden {number}", {"parts": parts, "passes": passes} | given, kept=_script(random)))
    for name, (parts, passes) in FIXED.items():
        more = {"width": 4, "training": name in IN_TRAINING, "frozen": name == "in training", "seed": 3}
        more |= MORE.get(name, {})
        cases.append(Case(f"hidden {name}", {"parts": parts, "passes": passes} | more, kept=_script(random)))
    given = {"width": 3, "training": True, "frozen": True, "seed": random.randrange(2**31)}
    branching = {"parts": ["relu", "branch", "layer"], "passes": ["merge_relus"]} | given
    cases.append(Case("hidden branch", branching, kept=_script(random)))
    parts = random.sample(["rows", "relu", "layer"], 3)
    given = {"width": 4, "training": False, "seed": random.randrange(2**31)}
    by_rows = {"parts": parts, "passes": ["drop_neutral", "merge_relus"]} | given
    cases.append(Case("hidden row by row", by_rows, kept=_script(random)))
    return cases


def _script(random: Random) -> dict[str, Any]:
    """Of a stopwatch: how long an operator takes, how the machine grows slower, and when it is disturbed."""
    disturbed = sorted(random.sample(range(3, 12), 2))
    return {"operator": random.uniform(2e-4, 3e-3), "slower": random.uniform(0.03, 0.06), "disturbed": disturbed}


@dataclass(frozen=True)
class Truth:
    """What a right pipeline comes to.

    Attributes:
        kept: names of the passes that it keeps.
        operations: nodes of the captured graph and of the result.
        operators: how many operators run in each of the two.
        result: the graph that it returns. A pass that is right on every input that there was to verify on may be wrong
            on another one. There a right result computes what this one does, and not always what the model does.
    """

    kept: list[str]
    operations: list[int]
    operators: list[int]
    result: fx.GraphModule


def truth(case: Case, model: nn.Module, chosen: list[str] | None = None) -> Truth:
    """The judge's own pipeline; with `chosen`, one that keeps these passes and asks nothing."""
    program = export(copy.deepcopy(model), (draw(case, 3, 1),), dynamic_shapes=({0: Dim("batch", min=1)},))
    graph_module, kept = program.module(), list[str]()
    assert isinstance(graph_module, fx.GraphModule)
    captured = graph_module
    inputs = [draw(case, 3, 1, positive=True), *others_of(case)]
    for name in case.parameters["passes"]:
        if chosen is not None and name not in chosen:
            continue
        trial = copy.deepcopy(graph_module)
        try:
            (PASSES | MORE_PASSES)[name](trial)
            right = all(agrees(trial(x.clone()), model(x), relative=1e-4, absolute=1e-4) for x in inputs)
        except Exception:  # a pass may raise anything, and so may the graph that it leaves
            continue
        if right or chosen is not None:
            graph_module, kept = trial, [*kept, name]
    both = (captured, graph_module)
    operations, operators = [count(graph) for graph in both], [operators_of(graph, inputs[0]) for graph in both]
    return Truth(kept, operations, operators, graph_module)


@once_a_case
def known_truth(case: Case) -> Truth:
    """What a right pipeline comes to, worked out once for all answers."""
    return truth(case, build(case).eval())


MOST_DRIFT = 4
"""How many passes that each add a little may be kept, however the limit of 1e-4 is read."""


def wanted_of(case: Case, report: dict[str, Any]) -> Truth:
    """What a right pipeline comes to; of the passes that were kept where the limit can be read in two ways."""
    found = known_truth(case)
    little = [name for name in report["kept"] if name.startswith("drift")]
    if not any(name.startswith("drift") for name in found.kept) or not 1 <= len(little) <= MOST_DRIFT:
        return found
    others = [name for name in found.kept if not name.startswith("drift")]
    return truth(case, build(case).eval(), [name for name in case.parameters["passes"] if name in {*others, *little}])


def count(graph_module: fx.GraphModule) -> int:
    """The number of `call_function` nodes."""
    return len([node for node in all_nodes(graph_module) if node.op == "call_function"])


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with result and report, the most telling first."""
    values = evidence.values
    if raised := values.get("raised"):
        yield ("a pass ended everything" if raised == "pass" else "capture ended everything"), ""
        return
    if values["report"] is None or any(len(values["report"][name]) != 2 for name in ("operations", "seconds")):
        yield "no report", ""
        return
    if UNCAPTURED & set(case.parameters["parts"]):
        report = values["report"]
        if report["captured"]:
            yield ("pretended to capture" if "branch" in case.parameters["parts"] else "batch became a number"), ""
        elif not values["same_model"]:
            yield "not the model itself", ""
        elif values["training"] != [module.training for module in build(case).modules()]:
            yield "model left in another mode", ""
        elif any(any(report[name]) for name in ("kept", "rejected", "operations", "seconds")):
            yield "figures of nothing", f"({', '.join(f'{name} {report[name]}' for name in report)})"
        return
    with torch.no_grad():
        found = (
            _wrong_model(case, evidence)
            or _wrong_capture(evidence)
            or _wrong_choice(case, evidence)
            or _wrong_result(case, evidence)
            or _wrong_figures(case, evidence)
        )
    if found:
        yield found


def _wrong_model(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    """Whether the caller's model has other weights than before, or is in another mode."""
    ours, theirs = fx.symbolic_trace(build(case)), decode(evidence.graphs["model"])
    state = theirs.state_dict()
    if not all(agrees(state.get(name), value, relative=0.0) for name, value in ours.state_dict().items()):
        return "model changed", ""
    modes = {name: module.training for name, module in theirs.named_modules()}
    if any(modes.get(name) != module.training for name, module in ours.named_modules()):
        return "model left in another mode", ""
    return None


def _wrong_capture(evidence: Evidence) -> tuple[str, str] | None:
    """Whether the report denies that the model was captured; the exporter takes it."""
    if evidence.values["report"]["captured"]:
        return None
    return ("denied the capture" if "graph" in evidence.graphs else "not captured"), ""


KEPT = {
    "drop_abs": "checked on the example only",
    "break_halfway": "kept what raised",
    "break_after_writing": "kept what raised",
    "refuse": "kept what raised",
    "freeze_batch": "checked on the example only",
    "make_undefined": "took NaN for right",
    "wrap": "compared by broadcasting",
    "at_least_eight": "joined the inputs",
    "at_least_three": "checked on some of the others",
    "at_most_four": "checked on some of the others",
    "lose_a_node": "kept what raised",
    "needs_no_zero": "kept what raised",
    "lift": "not checked on the example",
    "scratch": "not every value compared",
    "cut_above": "not every value compared",
    "cut_below": "not every value compared",
    "turn_rows": "not every value compared",
    "turn_columns": "not every value compared",
}
"""What it means to keep a pass where it is not right."""


WRITES = {"clamp_input_1", "clamp_input_2", "negate_input"}
"""The passes that make the graph write into its input."""

BEHIND_OTHERS = {"needs_no_zero", "assume_no_zero"}
"""The passes that fail in their turn, and would be right behind another one."""


def _wrong_choice(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    """Whether other passes were kept than those that are right."""
    report = evidence.values["report"]
    wanted = wanted_of(case, report).kept
    kept, names = report["kept"], case.parameters["passes"]
    detail = f"({case.name}: kept {', '.join(kept) or 'nothing'}; right are {', '.join(wanted) or 'none'})"
    if kept != wanted and WRITES & set(names):
        return "input written into", detail
    if wrongly := [name for name in kept if name not in wanted]:
        if BEHIND_OTHERS & set(wrongly) and kept != sorted(kept, key=names.index):
            return "tried again", detail
        if any(name.startswith("drift") for name in wrongly):
            return "compared with the graph before", detail
        if "log" in case.parameters["parts"]:
            return "NaN taken for equal", detail
        reasons = {KEPT.get(name, "kept a wrong pass") for name in wrongly}
        return (reasons.pop() if len(reasons) == 1 else "kept a wrong pass"), detail
    missing = [name for name in wanted if name not in kept]
    if not kept and missing and case.parameters["training"]:
        return "exported in training mode", detail
    if missing:
        first = min((names.index(name) for name in names if name not in wanted), default=len(names))
        after = all(names.index(name) > first for name in missing)
        if after and set(missing) <= set(report["rejected"]) and set(names[first + 1 :]) <= set(report["rejected"]):
            return "rejected pass left in", detail
        if after and not set(names[first:]) & {*kept, *report["rejected"][1:]}:
            return "stopped at the first rejection", detail
        if set(missing) <= set(report["rejected"]):
            rounded = set(missing) <= {"fold_scale", "nudge", "drift_1", "enlarge"}
            return ("rounding taken for a mistake" if rounded else "rejected a right pass"), detail
        return ("stopped at the first rejection" if after else "passes left out"), detail
    return None if sorted(report["rejected"]) == sorted(set(names) - set(wanted)) else ("never rejects", detail)


def _wrong_result(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    """Whether the graph computes something else than a right pipeline's, or has other operations."""
    if "graph" not in evidence.graphs:
        return "no graph", ""
    graph = decode(evidence.graphs["graph"])
    wanted = wanted_of(case, evidence.values["report"])
    loose = 5e-4 if any(name.startswith("drift") for name in wanted.kept) else 1e-4
    for batch in (3, 4, 1):
        x = draw(case, batch, 20 + batch)
        try:
            [found] = tree_leaves(run(graph, [x]))
        except Exception as error:  # a learner's graph fails in any way
            return "froze the batch size", f"(batch {batch}: {type(error).__name__})"
        if not same(found, wanted.result(x), loose, loose):
            rejected = set(case.parameters["passes"]) - set(wanted.kept)
            why = "rejected pass left in" if rejected else "computes something else"
            return (why if batch == 3 else "froze the batch size"), f"(batch {batch})"
    if refused := evidence.values.get("batches"):
        return "range with an end", f"(batch {refused[0]})"
    report = evidence.values["report"]
    if report["operations"] != wanted.operations or count(graph) != wanted.operations[1]:
        name = "passes not applied" if count(graph) > wanted.operations[1] else "wrong number of operations"
        return name, f"(found {report['operations']}, wanted {wanted.operations})"
    return None


def _wrong_figures(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    """Whether the report's times are not the medians of what the stopwatch said."""
    if timed := evidence.values["modules timed"]:
        return "timed the model", f"({timed} calls)"
    events, seconds = evidence.values["seen"], evidence.values["report"]["seconds"]
    order = [operators for operators, _ in events]
    wanted = wanted_of(case, evidence.values["report"]).operators
    if wanted[0] == wanted[1]:
        return _alike(order, events, seconds, wanted[0])
    if len(set(order)) < 2:
        return "same graph timed twice", ""
    before, after = (max(order), min(order)) if wanted[0] > wanted[1] else (min(order), max(order))
    if wanted != [before, after]:
        return "not measured as asked", f"(operators of the calls: {order}; the two graphs have {wanted})"
    pairs = [set(order[i : i + 2]) for i in range(0, len(order), 2)]
    if len(order) != 2 * (ROUNDS + 1) or any(pair != {before, after} for pair in pairs):
        return "not measured as asked", f"(operators of the calls: {order})"
    runs = [[time for operators, time in events if operators == which] for which in (before, after)]
    explanations = {
        "": [statistics.median(times[1:]) for times in runs],
        "warm-up counted": [statistics.median(times) for times in runs],
        "mean instead of median": [statistics.fmean(times[1:]) for times in runs],
        "minimum instead of median": [min(times[1:]) for times in runs],
    }
    for name, times in explanations.items():
        if all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(seconds, times, strict=False)):
            return (name, "") if name else None
    return "wrong seconds", f"(found {seconds})"


def _alike(order: list[int], events: list[list[float]], seconds: list[float], operators: int) -> tuple[str, str] | None:
    """The same for two graphs of as many operators: which of them was timed cannot be seen."""
    if order != [operators] * (2 * (ROUNDS + 1)):
        return "not measured as asked", f"(operators of the calls: {order}; the two graphs have {operators})"
    turns = [[time for _, time in events[first::2]][1:] for first in (0, 1)]
    wanted = sorted(statistics.median(times) for times in turns)
    if not all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(sorted(seconds), wanted, strict=False)):
        return "wrong seconds", f"(found {seconds})"
    return None
