"""The learner's side: operators to look up, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

FACTS = ("line", "function", "key", "file", "why", "derivatives")
"""What is asked about each operator."""

MOMENTS = ("answers", "meanwhile", "afterwards")
"""When it is asked: at first, and in some cases while there are other kernels, and when they have gone."""

LONGEST = 1000
"""Characters of a text that become evidence; the longest formula of the wheel has fewer."""

MOST_FORMULAS = 30

LINE = 7
"""Of the file in which a kernel is said to be registered; nobody asks about it."""


def visible_cases() -> list[Case]:
    """An operator of each kind, and one that is not there."""
    return [
        Case("a kernel of its own", {"operators": ["relu", "_softmax"]}),
        Case("delegated", {"operators": ["relu", "mul.Tensor", "add.Tensor", "tanh_"]}),
        Case("composite", {"operators": ["linear", "ones_like", "add.Scalar", "pairwise_distance", "dropout_"]}),
        Case("formulas", {"operators": ["matmul", "native_layer_norm", "embedding"]}),
        Case("not there", {"operators": ["add.Nothing"]}),
    ]


def probe(case: Case, facts: Any) -> Evidence:
    """Ask about each operator; where there are kernels to register, also while these are there, and afterwards."""
    operators, kernels = case.parameters["operators"], case.parameters.get("kernels", {})

    def answers() -> list[Any]:
        return [_answer(facts, operator) for operator in operators]

    values = {"answers": answers()}
    if kernels:
        with registered(kernels):
            values["meanwhile"] = answers()
        values["afterwards"] = answers()
    return Evidence(values)


@contextmanager
def registered(kernels: dict[str, str]) -> Iterator[None]:
    """Kernels for the processor that are there for a while, by operator, each with the file that is said to hold it."""
    libraries = []
    try:
        for operator, file in kernels.items():
            library = torch._C._dispatch_library("IMPL", "aten", "CPU", file, LINE)
            libraries.append(library)
            library.impl(operator, "CPU", _never_called)
        yield
    finally:
        for library in libraries:
            library.reset()


def _never_called(*arguments: Any) -> None:
    raise NotImplementedError("this kernel is only looked up")


def _answer(facts: Any, operator: str) -> Any:
    try:
        found = facts(operator)
    except LookupError as error:
        return {"missing": str(error)[:LONGEST]}
    if not isinstance(found, dict):
        return None
    return {name: _plain(found.get(name)) for name in FACTS} | {"has": [name for name in FACTS if name in found]}


def _plain(found: Any) -> Any:
    """A fact as JSON: text, a whole number, nothing, or formulas by name; other things become their type's name."""
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    if isinstance(found, str):
        return found[:LONGEST]
    if isinstance(found, dict):
        return {str(name)[:100]: str(text)[:LONGEST] for name, text in list(found.items())[:MOST_FORMULAS]}
    return {"not a fact": type(found).__name__}


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was found."""
    lines = [f"{case.name}: what you found"]
    for operator, found in zip(case.parameters["operators"], evidence.values["answers"], strict=True):
        lines.append(f"  {operator}{'' if found else ': no dictionary'}")
        if found and "missing" in found:
            lines.append(f"    not there: {found['missing']}")
        elif found:
            lines += [f"    {name:12} {found[name]}" for name in FACTS]
    return ["\n".join(lines)]
