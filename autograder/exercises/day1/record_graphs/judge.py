"""What a right recorder is: it keeps every graph as it was captured, and the compiled model still computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import EncodedGraph, run
from autograder.exercises.composed import once_a_case
from autograder.exercises.day1.record_graphs.visible import ACTIVATIONS, MODELS, Overwriting, build, of_calls

MISCONCEPTIONS = {
    "returned nothing callable": (
        "Your backend must return something callable: Dynamo calls it in place of the Python code that it replaced. "
        "Recording is a side effect; `return graph_module.forward` hands the graph back unchanged."
    ),
    "not a sequence": (
        "`graphs` must be a list or another sequence: whoever looks at it wants to know how many graphs there are, and "
        "to ask for the first one with `graphs[0]`."
    ),
    "nothing recorded": (
        "Your recorder's `graphs` is empty after the model ran: append each graph module to `self.graphs`."
    ),
    "only one graph kept": (
        "A model with a graph break is captured in several graphs, one call of your backend each. "
        "You kept only one of them: append to a list, and keep what is already there."
    ),
    "graphs missing": (
        "You kept fewer graphs than were captured: keep each one that your backend is handed, also one that does the "
        "same as another."
    ),
    "graphs let go": (
        "Your recorder had lost its graphs by the time that Dynamo forgot them. Keep the graph modules themselves: a "
        "weak reference keeps nothing."
    ),
    "wrong order": "The graphs are all there, but in another order than they were captured in: append each at the end.",
    "copies kept": (
        "`graphs` holds copies. Keep the very graph modules that your backend was handed: whoever looks at them later "
        "wants those that run."
    ),
    "gradients lost": (
        "The compiled model returns the right values, but training goes wrong: its gradients are missing or others. "
        "Hand the graph back as it is, without `no_grad` and without detaching."
    ),
    "inference tensors": (
        "Called under `no_grad`, the compiled model returns inference tensors, with which nothing can be trained any "
        "more. The model itself returns ordinary ones: leave the modes of autograd to the caller."
    ),
    "gradients switched on": (
        "Called under `no_grad`, the compiled model records for autograd all the same. The model itself does not: "
        "leave the modes of autograd to the caller."
    ),
    "ran while compiling": (
        "The model wrote into its buffers more often than it was called: you ran the graph while it was compiled. Only "
        "record it, and return what is to run later."
    ),
    "random numbers used up": (
        "Your backend moved the stream of random numbers while it recorded: it ran the graph, or set the seed. A model "
        "that draws then draws others than it would without you. Only record."
    ),
    "writes lost": (
        "What the model writes in place is lost: into a buffer, or into a tensor that a later graph reads. Either what "
        "ran was given copies, or the write was taken out of the graph, as dead code for instance. Hand the graph back "
        "as it is."
    ),
    "mode switched": (
        "You switched a graph module between training and evaluation. Keep each one as it was handed to you."
    ),
    "shared between recorders": (
        "Two recorders share their graphs: a new one already holds those of another, or the other loses its own. The "
        "list belongs to the class or to the module. Create it in `__init__`, as `self.graphs`."
    ),
    "recorded late": (
        "A graph stands in `graphs` only once it has run. Keep it when it is handed to you, in `__call__`, not in what "
        "you return."
    ),
    "recorded when running": (
        "You have more graphs than were captured: you record when the compiled code runs, not when it is compiled. "
        "A backend is called once for each graph; what it returns is called each time the model runs."
    ),
    "not graph modules": (
        "`graphs` must hold the graph modules themselves: text or a bare `Graph` cannot be run or transformed any more."
    ),
    "example outputs baked in": (
        "The compiled model gives the same output for different inputs: you ran the graph once on the example inputs "
        "and return that result. Return the function, not its result."
    ),
    "model computes something else": "The compiled model no longer computes what the model computes in eager mode.",
    "other graph": "A graph that you recorded does not compute what the captured graph computes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Each model once, in other widths, with other activations; one is captured anew for a larger batch."""
    cases = []
    for name in MODELS:
        parameters = {
            "model": name,
            "width": random.randint(3, 9),
            "activation": random.choice(sorted(ACTIVATIONS)),
            "batch": (batch := random.randint(2, 5)),
            "seed": random.randrange(2**31),
        }
        more: dict[str, Any] = {"second_batch": batch + 1} if name == "twice_interrupted" else {}
        more |= {"let go": name == "interrupted", "evaluated": name in ("straight", "repeating")}
        cases.append(Case(f"hidden {name}", parameters | more))
    return cases


@dataclass(frozen=True)
class Captured:
    """The judge's own capture of a case.

    Attributes:
        graphs: each with its example inputs.
        of_the_first: how many of them are captured for the first input.
        expected: what calling the model in eager mode comes to.
        without_writes: the output for the first input, where nothing is written into what a graph is handed.
    """

    graphs: list[tuple[torch.fx.GraphModule, list[Any]]]
    of_the_first: int
    expected: dict[str, torch.Tensor]
    without_writes: torch.Tensor | None


@once_a_case
def capture(case: Case) -> Captured:
    """The judge's own capture."""
    model, inputs = build(case)
    captured: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append((graph_module, [value.detach().clone() for value in example_inputs]))
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    compiled(inputs[0])
    of_the_first = len(captured)
    compiled(inputs[1])
    torch._dynamo.reset()
    untouched, _ = build(case)
    expected = of_calls(untouched, untouched, inputs)
    with torch.no_grad():
        expected["output without gradients"] = untouched(inputs[0])
        without_writes = None
        if isinstance(untouched, Overwriting):
            untouched.factor = 1.0
            without_writes = untouched(inputs[0])
    return Captured(captured, of_the_first, expected, without_writes)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    captured = capture(case).graphs
    values = evidence.values
    recorded, kinds = values["recorded"], values["kinds"]
    kept, again = (sorted(n for n in evidence.graphs if n.startswith(name)) for name in ("graph", "fresh"))
    if not all(values["returned_callable"]):
        yield "returned nothing callable", ""
        return
    if values["held"]:
        yield "shared between recorders", f"(before it has seen any graph, a new recorder holds {values['held']})"
        return
    if problem := _other_results(capture(case), evidence.tensors):
        yield problem
        return
    if values["inference"] or values["trained"]:
        yield ("inference tensors" if values["inference"] else "gradients switched on"), ""
        return
    if any(values["drew"]):
        yield "random numbers used up", ""
        return
    if values["kind"] != "sequence":
        yield "not a sequence", f"(found {values['kind']})"
        return
    if recorded == 0:
        yield "nothing recorded", ""
        return
    if any("GraphModule" not in kind for kind in kinds):
        yield "not graph modules", f"(found: {', '.join(sorted(set(kinds)))})"
        return
    if recorded < len(captured):
        name = "only one graph kept" if recorded == 1 else "graphs missing"
        yield name, f"(captured {len(captured)}, kept {recorded})"
        return
    if recorded > len(captured) or len(kept) > len(captured):
        yield "recorded when running", f"(captured {len(captured)}, kept {recorded})"
        return
    if values["kept by the fresh one"] == 0 and case.parameters.get("let go"):
        yield "graphs let go", ""
        return
    for name, found in (("graph", kept), ("fresh", again)):
        # A fresh recorder has seen one call only, for which the graphs of the first input were captured.
        due = captured if name == "graph" else captured[: capture(case).of_the_first]
        if len(found) > len(due):
            yield "other graph", f"(a fresh recorder holds {len(found)})"
            return
        theirs = [evidence.graphs.get(f"{name}{i}") for i in range(len(due))]
        same = [one is not None and _same_function(one, *ours) for one, ours in zip(theirs, due, strict=True)]
        if not all(same):
            elsewhere = all(any(one is not None and _same_function(one, *ours) for one in theirs) for ours in due)
            yield ("wrong order" if elsewhere else "other graph"), f"(graph number {same.index(False)})"
            return
    if values["left"] != recorded:
        yield "shared between recorders", f"(of {recorded} graphs {values['left']} are left once another one is in use)"
        return
    if not all(values["modes kept"]):
        yield "mode switched", ""
        return
    if not all(values["handed"]) or len(values["handed"]) != recorded:
        yield "copies kept", ""
        return
    if not all(values["at once"]):
        yield "recorded late", ""


def _other_results(captured: Captured, found: dict[str, torch.Tensor]) -> tuple[str, str] | None:
    """In what the compiled model differs from the model in eager mode."""
    expected = captured.expected
    wrong = [name for name, want in expected.items() if not agrees(found.get(name), want, absolute=1e-6)]
    figures = f"(in {', '.join(wrong)})"
    if any(name.startswith("buffer") for name in wrong):
        # What the buffers hold is a count of calls.
        counts = [(found[name], expected[name]) for name in wrong if name.startswith("buffer") and name in found]
        fewer = any(one.shape == want.shape and bool((one < want).any()) for one, want in counts)
        return ("writes lost" if fewer else "ran while compiling"), figures
    if any(name.startswith("output") for name in wrong):
        unwritten = captured.without_writes
        if unwritten is not None and agrees(found.get("output0"), unwritten, absolute=1e-6):
            return "writes lost", figures
        first, second = (found.get(f"output{i}") for i in range(2))
        same = first is not None and second is not None and torch.equal(first, second)
        return ("example outputs baked in" if same else "model computes something else"), figures
    return ("gradients lost", figures) if wrong else None


def _same_function(theirs: EncodedGraph, ours: torch.fx.GraphModule, example_inputs: list[Any]) -> bool:
    generator = torch.Generator().manual_seed(len(example_inputs))
    fresh = [torch.randn(value.shape, generator=generator) for value in example_inputs]
    with torch.no_grad():
        wanted = ours(*(value.clone() for value in fresh))  # a graph may write into what it is given
    try:
        found = run(theirs, fresh)
    except (TypeError, RuntimeError):
        # A graph of other inputs or other shapes: certainly not the captured one.
        return False
    if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
        return False
    return all(agrees(a, b) for a, b in zip(found, wanted, strict=True))
