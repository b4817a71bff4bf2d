"""The learner's side: tensors and blocks in words, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

MOST_KERNELS = 20
"""Kernels of an answer that become evidence; a right one has at most four."""

LONGEST = 40
"""Characters of a kernel's name that become evidence."""

Call = dict[str, Any]
"""`tensors`: a list of descriptions; `blocks`: names of `with` blocks, the outermost first."""


def tensor(device: str = "cpu", layout: str = "strided", made: str = "outside", **more: Any) -> dict[str, Any]:
    """A tensor in words; `requires_grad` and `batched` are false unless said otherwise."""
    return {"device": device, "layout": layout, "made": made, "requires_grad": False, "batched": False, **more}


def call(*tensors: dict[str, Any], blocks: tuple[str, ...] = ()) -> Call:
    """A call with these tensors within these blocks."""
    return {"tensors": list(tensors), "blocks": list(blocks)}


def visible_cases() -> list[Case]:
    """One tensor after the other, one block after the other, and two tensors."""
    return [
        Case(
            "tensors",
            {
                "calls": [
                    call(tensor()),
                    call(tensor(requires_grad=True)),
                    call(tensor("meta")),
                    call(tensor(layout="sparse")),
                    call(tensor(made="inside")),
                ]
            },
        ),
        Case(
            "blocks",
            {
                "calls": [
                    call(tensor(requires_grad=True), blocks=("no_grad",)),
                    call(tensor(), blocks=("inference_mode",)),
                    call(tensor(made="inside"), blocks=("inference_mode",)),
                    call(tensor(), blocks=("autocast",)),
                    call(tensor(batched=True), blocks=("vmap",)),
                ]
            },
        ),
        Case("two tensors", {"calls": [call(tensor(), tensor("meta")), call(tensor(layout="sparse"), tensor())]}),
    ]


def probe(case: Case, kernels: Any) -> Evidence:
    """Ask for each call."""
    with torch_calls() as called:
        answers = [_names(kernels(one["tensors"], one["blocks"])) for one in case.parameters["calls"]]
    return Evidence({"answers": answers, "torch_calls": called[:3]})


def _names(found: Any) -> list[str] | None:
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        return None
    return [name[:LONGEST] for name in found[:MOST_KERNELS]]


def in_words(one: Call) -> str:
    """A call as the check and the judge tell of it."""
    return f"{' and '.join(map(_tensor_in_words, one['tensors']))}{_blocks_in_words(one['blocks'])}"


def _tensor_in_words(one: dict[str, Any]) -> str:
    made = {"outside": "", "inside": ", made inside inference_mode"}.get(one["made"], f", {one['made']}")
    told = [name for name in ("requires_grad", "batched") if one[name]]
    return f"a {one['layout']} {one['device']} tensor{made}{''.join(f', {name}' for name in told)}"


def _blocks_in_words(blocks: list[str]) -> str:
    return f", within {' > '.join(blocks)}" if blocks else ""


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each call with the learner's answer."""
    lines = [f"{case.name}: the kernels that you expect"]
    for one, found in zip(case.parameters["calls"], evidence.values["answers"], strict=True):
        lines.append(f"  {in_words(one)}: {' → '.join(found) if found is not None else 'no list of names'}")
    return ["\n".join(lines)]
