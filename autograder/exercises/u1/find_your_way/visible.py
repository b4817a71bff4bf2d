"""The learner's side: operators to look up, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence

FACTS = ("line", "function", "key", "file", "why", "derivatives")
"""What is asked about each operator."""

LONGEST = 1000
"""Characters of a text that become evidence; the longest formula of the wheel has fewer."""

MOST_FORMULAS = 30


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
    """Ask about each operator."""
    return Evidence({"answers": [_answer(facts, operator) for operator in case.parameters["operators"]]})


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
