"""The learner's side: pairs of tensors, places for results, what the built operator makes of them."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import profiler

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5.native import described, in_words, load, make, tensor
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, source_of
from autograder.learner_side.mode import is_grading
from fxopt_core.benchmark import measure_interleaved

SCHEMAS = {
    "default": "u5::soft_clip(Tensor x, Tensor limit) -> Tensor",
    "out": "u5::soft_clip.out(Tensor x, Tensor limit, *, Tensor(a!) out) -> Tensor(a!)",
}

PLACES = ("x itself", "limit itself", "beside x", "x shifted by one", "limit shifted by one", "one number")
"""Places for a result: all of `x`, or of the limits; between the numbers of `x`, in the same storage; and what
overlaps, with a part of one of both or with itself."""

OVERLAPPING = PLACES[3:]


def call(x: Any, limit: Any, out: Any = None) -> dict[str, Any]:
    """A call; `out` is a tensor in words, or one of `PLACES`, or `None` for a new result."""
    return {"x": x, "limit": limit, "out": out}


def limits(*shape: int, seed: int, **more: Any) -> dict[str, Any]:
    """Limits in words: positive numbers."""
    return tensor(*shape, seed=seed, **{"low": 0.5, "high": 3.0, **more})


def visible_cases() -> list[Case]:
    """One case for each thing that TensorIterator does for a kernel, and one that looks at how it is done."""
    x = tensor(4, 6, seed=1)
    row = tensor(8, seed=13)
    calls = {
        "two tensors": [call(x, limits(4, 6, seed=2))],
        "broadcast": [call(tensor(3, 1, 5, seed=3), limits(4, 1, seed=4)), call(x, limits(seed=5))],
        "dtypes": [
            call(x, limits(4, 6, seed=6, dtype="float64")),
            call(tensor(4, 6, seed=7, dtype="int64", low=-9, high=9), limits(4, 6, seed=8)),
            call(tensor(5, seed=7, dtype="int32", low=-9, high=9), limits(5, seed=8, dtype="int64", low=1, high=9)),
        ],
        "layouts": [
            call({**x, "how": "transposed"}, limits(4, 6, seed=9, how="transposed")),
            call(tensor(2, 3, 4, 5, seed=10, how="channels last"), limits(seed=11)),
            call({**x, "how": "every other"}, limits(4, 6, seed=9, how="inside")),
        ],
        "empty": [call(tensor(0, 3, seed=12), limits(3, seed=12))],
        "out": [
            call(x, limits(4, 6, seed=2), tensor(4, 6, seed=0, how="transposed")),
            call(x, limits(4, 6, seed=2), tensor(0, seed=0)),
            call(x, limits(4, 6, seed=2), tensor(4, 6, seed=0, dtype="float64")),
            call(x, limits(4, 6, seed=2), tensor(4, 6, seed=0, dtype="int64")),
        ],
        "overlap": [call(row, limits(8, seed=14), place) for place in PLACES],
        "long": [call(tensor(1003, seed=15), limits(1003, seed=16))],
    }
    return [Case(name, {"number": i}, kept={"calls": one}) for i, (name, one) in enumerate(calls.items())]


def placed(one: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """`x`, the limits, and the place for the result."""
    x, limit, out = make(one["x"]), make(one["limit"]), one["out"]
    if out == "beside x":
        both = torch.stack([x, torch.zeros_like(x)], -1)
        return both[..., 0], limit, both[..., 1]
    if out is None or isinstance(out, dict):
        return x, limit, None if out is None else make(out)
    if out in ("x shifted by one", "limit shifted by one"):
        moved = x if out == "x shifted by one" else limit
        both = torch.cat([moved, moved[:1]])
        return (both[:-1], limit, both[1:]) if moved is x else (x, both[:-1], both[1:])
    return x, limit, {"x itself": x, "limit itself": limit}.get(out, x.new_zeros(1).expand(x.shape))


def probe(case: Case, soft_clip_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(soft_clip_source)


def fresh(case: Case) -> Evidence:
    """Call the operator, in a process of its own."""
    return apart(answers, case)


def answers(case: Case) -> Evidence:
    """Load the library, and call its operator as the case says."""
    try:
        operators = load(case)
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    packet: Any = getattr(operators, "soft_clip", None)
    overloads = packet.overloads() if packet is not None else []
    schemas = {name: str(getattr(packet, name)._schema) for name in overloads}
    seen: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for number, one in enumerate(case.parameters["calls"] if set(schemas) == set(SCHEMAS) else []):
        x, limit, out = placed(one)
        before = x.clone(), limit.clone()
        with profiler.profile() as recorded:
            found, raised = attempt(packet, x, limit, **({} if out is None else {"out": out}))
        # Placed in `x`, the result is to change it.
        written = [one["out"] in (f"{name} itself", *OVERLAPPING) for name in ("limit", "x")]
        kept = [written[0] or torch.equal(limit, before[1]), written[1] or torch.equal(x, before[0])]
        returned = out is None or (isinstance(found, torch.Tensor) and found.data_ptr() == out.data_ptr())
        parts = sorted({event.name for event in recorded.function_events if event.name.startswith("aten::")})
        seen.append({"raised": raised, "kept": kept, "returned": returned, "parts": parts, **described(found)})
        if isinstance(found, torch.Tensor):
            tensors[f"{number}"] = found
        if out is not None:
            tensors[f"{number}/out"] = out
    values: dict[str, Any] = {"schemas": schemas, "calls": seen}
    if seen and case.name == "long" and not is_grading():
        x, limit = torch.randn(1 << 20), torch.rand(1 << 20) + 1
        torch.set_num_threads(1)
        values["seconds"] = [
            one.minimum
            for one in measure_interleaved(
                {"yours": lambda: packet(x, limit), "in steps": lambda: x * limit / (limit + x.abs())}, repeats=7
            ).values()
        ]
    return Evidence(values, tensors)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What each call gave; of the long one also how long it takes, which counts for nothing."""
    if "calls" not in evidence.values:
        return []
    lines = [f"{case.name}:"]
    for one, seen in zip(case.kept["calls"], evidence.values["calls"], strict=False):
        out = f", out: {one['out'] if isinstance(one['out'], str) else in_words(one['out'])}" if one["out"] else ""
        gave = (
            first_line(seen["raised"]) if seen["raised"] else f"{seen.get('dtype')} with strides {seen.get('strides')}"
        )
        lines.append(f"  {in_words(one['x'])} with {in_words(one['limit'])}{out}: {gave}")
    if "seconds" in evidence.values:
        yours, three = evidence.values["seconds"]
        lines.append(
            f"  a million numbers on one core: yours {yours * 1e3:.2f} ms, operator after operator {three * 1e3:.2f} "
            "ms (speed isn't graded)"
        )
    return ["\n".join(lines)]
