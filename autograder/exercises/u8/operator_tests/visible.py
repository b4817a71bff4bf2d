"""The learner's side: samples and reference values travel as tensors, and the judge has the kernels run on them."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from autograder.exchange.evidence import Case, Evidence

MOST_SAMPLES, MOST_ELEMENTS = 40, 120
"""How many samples may travel, and how many elements the result of each may have: tests run often."""

MOST_BYTES = 1 << 16
"""Of what one argument lies in."""


def visible_cases() -> list[Case]:
    """A right kernel, and three that are wrong."""
    return [
        case("a right kernel", 1, {"kind": "right", "how": "tanh"}),
        case("reads rows as columns", 2, {"kind": "strides", "which": "transposed"}),
        case("one cap for all", 3, {"kind": "first cap"}),
        case("exponentials", 4, {"kind": "large", "which": "above", "limit": 80.0}),
    ]


def case(name: str, run: int, kernel: dict[str, Any]) -> Case:
    """A run of the tests, by its number, with a kernel that only the judge knows."""
    return Case(name, {"run": run}, kept={"kernel": kernel})


def reference_case(name: str, run: int, seed: int, caps: float) -> Case:
    """A run that tries the reference on numbers of the judge's.

    Args:
        name: of the case.
        run: number of the run.
        seed: of the numbers.
        caps: about how large the caps are.
    """
    return Case(name, {"run": run, "seed": seed, "caps": caps})


SHAPES = (((7,), (7,)), ((3, 4), (4,)), ((2, 1), (3, 1, 5)), ((), ()), ((0, 3), (3,)), ((2, 3, 2, 2), (3, 1, 1)))
"""Of both arguments; what a reference is tried on."""


def pairs(case: Case) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What a run tries the reference on, in double precision: ordinary ratios, and odd numbers in the first pair."""
    generator = torch.Generator().manual_seed(case.parameters["seed"])
    caps = case.parameters["caps"]
    found = []
    for shape, cap_shape in SHAPES:
        cap = (torch.rand(cap_shape, generator=generator, dtype=torch.float64) + 0.5) * caps
        found.append((torch.randn(shape, generator=generator, dtype=torch.float64) * caps, cap))
    odd = [0.0, 1e-9 * caps, -1e-5 * caps, 800 * caps, float("nan"), float("inf"), -float("inf")]
    return [(torch.tensor(odd, dtype=torch.float64), found[0][1]), *found]


def _referred(case: Case, reference: Any) -> Evidence:
    """What the reference gives for the numbers of the run."""
    tensors = {}
    for number, pair in enumerate(pairs(case)):
        found = _by_reference(reference, *pair)
        if found is not None:
            tensors[f"{number} reference"] = found
    return Evidence({"run": case.parameters["run"]}, tensors)


def _by_reference(reference: Any, x: torch.Tensor, cap: torch.Tensor) -> torch.Tensor | None:
    with numpy.errstate(all="ignore"):
        found = reference(*(tensor.to(torch.float64, copy=True).contiguous().numpy() for tensor in (x, cap)))
    if isinstance(found, (numpy.ndarray, numpy.floating)) and found.dtype.kind == "f":
        return torch.from_numpy(numpy.array(found))
    return None


def probe(case: Case, sample_inputs: Any, reference: Any) -> Evidence:
    """Hand over each sample, how it lies in memory, and what the reference gives for it."""
    if "seed" in case.parameters:
        return _referred(case, reference)
    samples = list(sample_inputs())
    tensors: dict[str, torch.Tensor] = {}
    told: list[dict[str, Any]] = []
    for number, sample in enumerate(samples[: MOST_SAMPLES + 1]):
        one: dict[str, Any] = {"problem": None}
        told.append(one)
        if not _is_pair(sample):
            one["problem"] = "no pair"
            continue
        x, cap = (tensor.detach() for tensor in sample)
        if any(_bytes(tensor) > MOST_BYTES for tensor in (x, cap)):
            one["problem"] = "too large"
            continue
        one["strides"] = {"x": list(x.stride()), "cap": list(cap.stride())}
        tensors |= {f"{number} x": x, f"{number} cap": cap}
        try:
            shape = torch.broadcast_shapes(x.shape, cap.shape)
        except RuntimeError:
            one["problem"] = "no broadcast"
            continue
        if shape.numel() > MOST_ELEMENTS:
            one["problem"] = "too large"
            continue
        found = _by_reference(reference, x, cap)
        if found is not None:
            tensors[f"{number} reference"] = found
    return Evidence({"samples": told, "count": len(samples), "run": case.parameters["run"]}, tensors)


def _bytes(tensor: torch.Tensor) -> int:
    spread = 1 + sum((size - 1) * abs(step) for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return max(spread, tensor.numel()) * tensor.element_size()


def _is_pair(sample: Any) -> bool:
    return (
        isinstance(sample, (tuple, list))
        and len(sample) == 2
        and all(isinstance(one, torch.Tensor) and one.layout == torch.strided for one in sample)
        and all(one.device.type == "cpu" and not one.is_complex() for one in sample)
    )


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How many samples there are, and of what kinds."""
    found = evidence.values["samples"]
    dtypes = sorted({str(one.dtype).removeprefix("torch.") for name, one in evidence.tensors.items() if " x" in name})
    shapes = sorted({str(list(one.shape)) for name, one in evidence.tensors.items() if " x" in name})
    return [f"{case.name}: {len(found)} samples; {', '.join(dtypes)}; {', '.join(shapes)[:200]}"]
