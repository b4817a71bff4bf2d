"""The learner's side: which names of PyTorch the built library needs, and what its operator makes of matrices."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5.native import described, in_figures, in_words, load, make, same, tensor
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, source_of

SCHEMA = "u5::decay(Tensor x, float rate) -> Tensor"

MOST_NAMES = 2000
"""Names that a library needs which are told; a small one needs fifty."""


def call(given: dict[str, Any], rate: float) -> dict[str, Any]:
    """A call of the operator."""
    return {"tensor": given, "rate": rate}


def visible_cases() -> list[Case]:
    """Rows, layouts, double precision, no columns, what is to be refused, and the names that the library needs."""
    plain = tensor(2, 5, seed=1)
    calls = {
        "rows": [call(plain, 0.5), call(tensor(1, 4, seed=0, values=[1.0, 0.0, 0.0, 2.0]), 0.5)],
        "layouts": [call({**plain, "how": how}, 0.9) for how in ("transposed", "every other", "inside")],
        "double precision": [call({**plain, "dtype": "float64"}, -0.3)],
        "empty": [call(tensor(3, 0, seed=1), 0.5), call(tensor(0, 3, seed=1), 0.5)],
        "refused": [
            call(tensor(4, seed=2), 0.5),
            call(tensor(2, 2, 2, seed=2), 0.5),
            call(tensor(2, 3, seed=3, dtype="int64"), 0.5),
        ],
        "names it needs": [],
    }
    return [Case(name, {"number": i}, kept={"calls": one}) for i, (name, one) in enumerate(calls.items())]


def probe(case: Case, stable_decay_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(stable_decay_source)


def fresh(case: Case) -> Evidence:
    """Read the names that the library needs, before it is loaded; then call the operator, in a process of its own."""
    needs = names_needed(case.tensors["library"].numpy().tobytes())
    found = apart(answers, case)
    return Evidence({**found.values, "needs": needs, "headers": case.parameters["headers"]}, found.tensors)


def names_needed(library: bytes) -> list[str]:
    """The names that a library expects from others, as the linker writes them.

    Raises:
        OSError: `nm` is not there, which compilers bring along.
    """
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        Path(file.name).write_bytes(library)
        options = ["-u"] if sys.platform == "darwin" else ["-D", "--undefined-only"]
        done = subprocess.run(["nm", *options, file.name], capture_output=True, text=True, check=True, timeout=30)
    names = [line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.split()]
    return sorted(names)[:MOST_NAMES]


def answers(case: Case) -> Evidence:
    """Load the library, and call its operator as the case says."""
    try:
        operators = load(case)
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    operator = getattr(operators, "decay", None)
    if operator is None:
        return Evidence({"schema": None, "calls": []})
    seen: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for number, one in enumerate(case.parameters["calls"]):
        x = make(one["tensor"])
        before = x.clone()
        found, raised = attempt(operator, x, one["rate"])
        seen.append({"raised": raised, "written": not same(x, before), **described(found)})
        if isinstance(found, torch.Tensor):
            tensors[str(number)] = found
    return Evidence({"schema": str(operator.default._schema), "calls": seen}, tensors)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What each call gave, and how many names of PyTorch the library needs."""
    if "calls" not in evidence.values:
        return []
    lines = [f"{case.name}:"]
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=False)):
        found = evidence.tensors.get(str(number))
        gave = (
            first_line(seen["raised"])
            if seen["raised"]
            else in_figures(found, figures=6)
            if found is not None
            else "no tensor"
        )
        lines.append(f"  {in_words(one['tensor'])}, rate {one['rate']:g}: {gave}")
    if not case.kept["calls"]:
        needs = evidence.values["needs"]
        stable = [name for name in needs if name.lstrip("_").startswith(("aoti_torch_", "torch_"))]
        such = f", such as {', '.join(stable[:3])}" if stable else ""
        lines.append(f"  {len(stable)} names of PyTorch's stable ABI{such}")
    return ["\n".join(lines)]
