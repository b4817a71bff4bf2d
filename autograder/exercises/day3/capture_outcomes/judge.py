"""What each method comes to on a model: measured by the judge."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.composed import once_a_case
from autograder.exercises.day3.capture_outcomes.visible import MODELS, PREDICTED, WORDS, build

MISCONCEPTIONS = {
    "prediction incomplete": (
        "`predictions()` must return a dictionary: for each of the models plain, branch and loop a dictionary from "
        "each of the five methods to one of the words whole, pieces, wrong, refused. It need not be right."
    ),
    "unknown word": "`measure_capture` must return one of the words whole, pieces, wrong, refused.",
    "silent mistake missed": (
        "You say 'whole' of a recording (`trace` or `symbolic_trace`) that gives wrong answers without a word. Compare "
        "it with the *model* (not with itself), and on the other inputs too: on the example it is mostly right. `nan` "
        "is right only where the model gives `nan`, too."
    ),
    "number for nan": (
        "You say 'whole' where the captured program gives numbers and the model gives `nan`. That is a wrong answer, "
        "too: `nan` is right only where *both* give it. Leave no element out of the comparison; `torch.allclose` with "
        "`equal_nan=True` takes two `nan` for equal, and a number and `nan` for different."
    ),
    "one number overlooked": (
        "You say 'whole' of a recording of which a single number is wrong: it is too small, and beside it model and "
        "recording give `nan`. One is enough. Look at the *largest absolute* difference, and leave `nan` out where "
        "both give it, or the largest is `nan`; `torch.allclose` with `equal_nan=True` does all of that."
    ),
    "only recordings compared": (
        "You say 'whole' of `script` or `export`, and what it captured gives wrong answers without a word. These two "
        "can be wrong as well: a model may ask whether it is being captured (`torch.jit.is_scripting()`, "
        "`torch.compiler.is_exporting()`) and go another way then. Compare with the model, whichever method it was."
    ),
    "refusal taken for a mistake": (
        "You say 'wrong' where the captured program refuses other inputs with an error. That is honest: wrong is only "
        "an answer that differs from the model's."
    ),
    "nan taken for a mistake": (
        "You say 'wrong' where the captured program gives `nan` and the model gives `nan`, too: that is the right "
        "answer. `nan` equals nothing, itself included; `torch.allclose` has `equal_nan=True`."
    ),
    "pieces overlooked": (
        "You say 'whole' where Dynamo made several graphs with Python in between. That the compiled model gives the "
        "right answer does not say in how many pieces it was captured: count them with a backend."
    ),
    "graph breaks forbidden": (
        "You say 'refused' where Dynamo captures in pieces: `fullgraph=True` turns a graph break into an error. Let it "
        "break, and count."
    ),
    "recompilations counted": (
        "You say 'pieces' where Dynamo captured one graph for the example. Other shapes make it compile *again*; that "
        "is no graph break. Count the graphs of the first call only."
    ),
    "refusal missed": "You name an outcome where the method in fact refuses to capture the model.",
    "refused too early": (
        "You say 'refused' where the method captures the model. Did you catch an error of something else, or answer "
        "from a table instead of measuring?"
    ),
    "other outcome": "Measured, the outcome is another one.",
}

BETWEEN = {
    ("wrong", "whole"): "silent mistake missed",
    ("whole", "wrong"): "refusal taken for a mistake",
    ("pieces", "whole"): "pieces overlooked",
    ("pieces", "refused"): "graph breaks forbidden",
    ("whole", "pieces"): "recompilations counted",
    ("whole", "refused"): "refused too early",
    ("wrong", "refused"): "refused too early",
}
"""What lies between the right word and the learner's."""


def hidden_cases(random: Random) -> list[Case]:
    """Every other model, and the loop at another length.

    One has wrong answers that are right when broadcast, and one a single wrong number.
    """
    names = [name for name in MODELS if name not in PREDICTED] + ["loop"]
    cases = [
        Case(f"hidden {i}", {"model": name, "length": random.randint(2, 6), "seed": random.randrange(2**31)})
        for i, name in enumerate(names)
    ]
    for case in cases:
        if case.parameters["model"] in ("picky", "counting"):
            case.parameters["refusing first"] = True
        if case.parameters["model"] in ("talkative", "number", "marginal"):
            case.parameters["nan"] = True
        if case.parameters["model"] == "reporting":
            case.parameters["one text"] = True
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first method whose word is not what the judge measures."""
    wanted = measured(case)
    found = evidence.values["words"]
    if any(found.get(method) not in WORDS for method in wanted):
        yield "unknown word", f"(found {sorted(set(found.values()) - set(WORDS))})"
        return
    for method, word in wanted.items():
        if found[method] != word:
            name = "refusal missed" if word == "refused" else BETWEEN.get((word, found[method]), "other outcome")
            if name == "refusal taken for a mistake" and "nan" in case.parameters:  # where nothing is refused
                name = "nan taken for a mistake"
            if name == "silent mistake missed" and case.parameters["model"] == "undefined":
                name = "number for nan"
            if name == "silent mistake missed" and case.parameters["model"] == "marginal":
                name = "one number overlooked"
            if name == "silent mistake missed" and method in ("script", "export"):
                name = "only recordings compared"
            yield name, f"(method {method}: you say {found[method]!r})"
            return
    predicted = evidence.values["predicted"]
    for name in PREDICTED:
        line = predicted.get(name)
        if not isinstance(line, dict) or set(line) != set(wanted) or not set(line.values()) <= set(WORDS):
            yield "prediction incomplete", f"(model {name})"
            return


def _dynamo(model: nn.Module, example: torch.Tensor) -> int:
    graphs = 0

    def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1
        return graph_module.forward

    torch._dynamo.reset()
    torch.compile(model, backend=backend)(example)
    torch._dynamo.reset()
    return graphs


CAPTURES: dict[str, Callable[[nn.Module, torch.Tensor], Any]] = {
    "symbolic_trace": lambda model, example: fx.symbolic_trace(model),
    "trace": lambda model, example: torch.jit.trace(model, (example,), check_trace=False),
    "script": lambda model, example: torch.jit.script(model),
    "export": lambda model, example: torch.export.export(model, (example,)).module(),
    "dynamo": _dynamo,
}


@once_a_case
def measured(case: Case) -> Mapping[str, str]:
    """The word for each method."""
    return {method: measure(method, case) for method in CAPTURES}


def measure(method: str, case: Case) -> str:
    """One of `WORDS` for a method on the case's model."""
    model, example, others = build(case)
    said = io.StringIO()  # models print, and the exporter prints the graph so far when it refuses
    with torch.no_grad(), warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
        warnings.simplefilter("ignore")
        try:
            captured = CAPTURES[method](model, example)
        except Exception:  # each method refuses with types of its own
            return "refused"
        if method == "dynamo":
            return "whole" if captured == 1 else "pieces"
        for x in [example, *others]:
            wanted = model(x)
            try:
                answer = captured(x)
            except Exception:  # a refusal of this input
                continue
            if answer.shape != wanted.shape or not torch.allclose(answer, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
                return "wrong"
    return "whole"
