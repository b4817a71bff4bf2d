"""The learner's side: tensors with every kind of stride, and what the built operator makes of them."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5.native import NAMESPACE, described, in_words, load, make, same, tensor
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, source_of

SCHEMA = "u5::longest_run(Tensor x, float limit=0.) -> Tensor"


def call(given: dict[str, Any], limit: float | None = None) -> dict[str, Any]:
    """A call of the operator; without `limit` it is left to its default."""
    return {"tensor": given, "limit": limit}


def visible_cases() -> list[Case]:
    """Rows in order, columns in the place of rows, double precision, no columns at all, and what is to be refused."""
    rows = [0.5, 1.0, -1.0, 2.0, 0.0, 3.0, 1.0, 1.0, 1.0, -2.0, 1.0, 1.0]
    plain = tensor(2, 6, seed=0, values=rows)
    calls = {
        "two rows": [call(plain), call(plain, 1.0)],
        "strides": [call({**plain, "how": how}) for how in ("transposed", "every other", "inside")],
        "double precision": [call({**plain, "dtype": "float64"}, 0.1)],
        # The nearest number of single precision is greater than 0.1 and smaller than 0.7.
        "a limit between": [call(tensor(1, 4, seed=0, values=[one, one, -1.0, one]), one) for one in (0.1, 0.7)],
        "empty": [call(tensor(3, 0, seed=0)), call(tensor(0, 4, seed=0))],
        "refused": [
            call(tensor(2, 3, 4, seed=1)),
            call(tensor(5, seed=2)),
            call(tensor(2, 3, seed=3, dtype="int64")),
            call(tensor(2, 3, seed=4, device="meta")),
        ],
    }
    return [Case(name, {"number": i}, kept={"calls": one}) for i, (name, one) in enumerate(calls.items())]


def probe(case: Case, longest_run_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(longest_run_source)


def fresh(case: Case) -> Evidence:
    """Call the operator, in a process of its own."""
    return apart(answers, case)


def answers(case: Case) -> Evidence:
    """Load the library, and call its operator as the case says."""
    try:
        operators = load(case)
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    operator = getattr(operators, "longest_run", None)
    if operator is None:
        return Evidence({"schema": None, "calls": []})
    seen: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for number, one in enumerate(case.parameters["calls"]):
        x = make(one["tensor"])
        before = x.clone()
        found, raised = attempt(operator, x, *([] if one["limit"] is None else [one["limit"]]))
        written = x.device.type == "cpu" and not same(x, before)
        seen.append({"raised": raised, "written": written, **described(found)})
        if isinstance(found, torch.Tensor) and found.device.type == "cpu":
            tensors[str(number)] = found
    for_cpu = torch._C._dispatch_has_kernel_for_dispatch_key(f"{NAMESPACE}::longest_run", "CPU")
    return Evidence({"schema": str(operator.default._schema), "for the CPU": for_cpu, "calls": seen}, tensors)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What each call gave."""
    if "calls" not in evidence.values:
        return []
    lines = [f"{case.name}:"]
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=False)):
        given = in_words(one["tensor"]) + ("" if one["limit"] is None else f", limit {one['limit']:g}")
        found = evidence.tensors.get(str(number))
        gave = first_line(seen["raised"]) if seen["raised"] else found.tolist() if found is not None else "no tensor"
        lines.append(f"  {given}: {gave}")
    return ["\n".join(lines)]
