"""The learner's side: an activation with dropout under seeds and generators, its gradient, and what a compiler sees."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import profiler

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u5.native import LAYOUTS, described, in_words, load, make, same, tensor
from autograder.learner_side.apart import apart
from autograder.learner_side.libraries import attempt, first_line, source_of
from autograder.learner_side.mode import is_grading
from fxopt_core.benchmark import measure_interleaved

SCHEMAS = {
    "silu_dropout": "u5::silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)",
    "silu_dropout_backward": "u5::silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor",
}


def dropped(
    x: dict[str, Any], p: float, seed: int, own: bool = False, incoming: str = "plain", mask: str = ""
) -> dict[str, Any]:
    """A call of the forward operator, after the seed was set; with `own` numbers come from a generator of its own.

    `incoming` says how the gradient lies in memory (a name of `LAYOUTS`); unless it is plain, the mask is transposed.
    With `mask`, a layout too, the backward operator gets a mask that was drawn apart, half of which is true: where `p`
    is next to 1, the forward operator's own has nothing to show.
    """
    return {"x": x, "p": p, "seed": seed, "own": own, "incoming": incoming, "mask": mask}


def given_mask(one: dict[str, Any]) -> torch.Tensor:
    """The mask that was drawn apart, for a call that names its layout."""
    generator = torch.Generator().manual_seed(one["seed"] + 2)
    return LAYOUTS[one["mask"]](torch.rand(one["x"]["shape"], generator=generator) < 0.5)


def upstream(one: dict[str, Any]) -> torch.Tensor:
    """The gradient that comes in where a call's is asked for."""
    generator = torch.Generator().manual_seed(one["seed"] + 1)
    drawn = torch.rand(one["x"]["shape"], generator=generator, dtype=getattr(torch, one["x"]["dtype"]))
    return LAYOUTS[one["incoming"]](drawn)


def visible_cases() -> list[Case]:
    """Values under a seed, both ends of the range, layouts, shares, a generator, gradients, the compiler."""
    x = tensor(6, 8, seed=1)
    given: dict[str, list[Any]] = {
        "values": [dropped(x, 0.5, 3), dropped({**x, "dtype": "float64"}, 0.25, 4)],
        "p is 0 or 1": [dropped(x, 0.0, 5), dropped(tensor(4, seed=0, values=[float("inf"), 1.0, -2.0, 3.0]), 1.0, 6)],
        "refused": [dropped(x, -0.1, 1), dropped(x, 1.5, 1), dropped(x, float("nan"), 1)],
        "layouts": [dropped({**x, "how": how}, 0.5, 7) for how in ("transposed", "every other", "inside")],
        "empty": [dropped(tensor(0, 3, seed=1), 0.5, 8)],
        "share": [dropped(tensor(64, 64, seed=2), 0.3, 9)],
        "generator": [dropped(tensor(16, 16, seed=3), 0.5, 10, own=True)],
        "gradient": [
            dropped(tensor(6, 8, seed=4, dtype="float64"), 0.4, 11),
            dropped({**x, "how": "transposed"}, 0.4, 12),
        ],
        "compiled": [dropped(tensor(5, 7, seed=5), 0.5, 13)],
    }
    return [Case(name, {"number": i, "what": name}, kept={"calls": one}) for i, (name, one) in enumerate(given.items())]


def probe(case: Case, silu_dropout_source: Any) -> Evidence:
    """The source; it is built outside, and runs where no cell of the learner's has run."""
    return source_of(silu_dropout_source)


def fresh(case: Case) -> Evidence:
    """Call the operators, in a process of its own."""
    return apart(answers, case)


def answers(case: Case) -> Evidence:
    """Load the library, and do what the case says."""
    try:
        operators = load(case)
    except RuntimeError as error:
        return Evidence({"unloadable": str(error)})
    schemas = {name: str(getattr(operators, name).default._schema) for name in SCHEMAS if hasattr(operators, name)}
    if schemas != SCHEMAS:
        return Evidence({"schemas": schemas})
    forward, backward = operators.silu_dropout.default, operators.silu_dropout_backward.default
    tensors: dict[str, torch.Tensor] = {}
    what, calls = case.parameters["what"], case.parameters["calls"]
    values: dict[str, Any] = {"schemas": schemas, "tags": sorted(str(tag) for tag in forward.tags)}
    if what == "compiled":
        values["calls"] = [_compiled(forward, backward, one, tensors, f"{i}") for i, one in enumerate(calls)]
    else:
        values["calls"] = [_called(what, forward, backward, one, tensors, f"{i}") for i, one in enumerate(calls)]
    if case.name == "share" and not is_grading():
        x = torch.randn(1 << 20)
        torch.set_num_threads(1)
        ways = {
            "yours": lambda: forward(x, 0.5),
            "in steps": lambda: torch.dropout(torch.nn.functional.silu(x), 0.5, True),
        }
        values["seconds"] = [one.minimum for one in measure_interleaved(ways, repeats=7).values()]
    return Evidence(values, tensors)


def _called(
    what: str, forward: Any, backward: Any, one: Any, tensors: dict[str, torch.Tensor], name: str
) -> dict[str, Any]:
    x, p, seed = make(one["x"]), one["p"], one["seed"]
    before = x.clone()
    own = torch.Generator().manual_seed(seed) if one["own"] else None

    def draw() -> Any:
        return attempt(forward, x, p, generator=own)

    torch.manual_seed(seed)
    state = torch.get_rng_state()
    with profiler.profile() as recorded:
        found, raised = draw()
    moved = not torch.equal(torch.get_rng_state(), state)
    written = x.device.type == "cpu" and not same(x, before)
    seen: dict[str, Any] = {"raised": raised, "written": written, "moved": moved}
    seen["parts"] = sorted({event.name for event in recorded.function_events if event.name.startswith("aten::")})
    if raised or x.is_meta or not isinstance(found, tuple) or len(found) != 2:
        return seen
    seen |= {"out": described(found[0]), "mask": described(found[1])}
    tensors[f"{name}/out"], tensors[f"{name}/mask"] = found
    further, _ = draw()
    torch.manual_seed(seed)
    if own is not None:
        own.manual_seed(seed)
    again, _ = draw()
    for which, other in (("further", further), ("again", again)):
        if isinstance(other, tuple):
            tensors[f"{name}/{which}"] = other[1]
    if what == "gradient":
        mask = found[1] if one["incoming"] == "plain" else LAYOUTS["transposed"](found[1])
        mask = given_mask(one) if one["mask"] else mask
        gradient, seen["raised"] = attempt(backward, upstream(one), x, mask, p)
        if isinstance(gradient, torch.Tensor):
            tensors[f"{name}/gradient"] = gradient
    return seen


def _compiled(forward: Any, backward: Any, one: Any, tensors: dict[str, torch.Tensor], name: str) -> dict[str, Any]:
    """A step of training, compiled: autograd is told in Python what the two operators have to do with each other."""
    x, p = make(one["x"]), one["p"]

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output[1])
        ctx.p = inputs[1]

    def formula(ctx: Any, gradient: Any, _: Any) -> Any:
        return backward(gradient, *ctx.saved_tensors, ctx.p), None, None

    with FakeTensorMode() as mode:
        faked, raised = attempt(forward, mode.from_tensor(x), p)
    seen: dict[str, Any] = {
        "fake": [described(part) for part in faked] if isinstance(faked, tuple) else [],
        "raised": raised,
    }
    if raised:
        return seen
    torch.library.register_autograd(forward, formula, setup_context=setup_context)
    compiled = torch.compile(lambda x: forward(x, p), backend="aot_eager", fullgraph=True, dynamic=True)
    x.requires_grad_()
    torch.manual_seed(one["seed"])
    found, seen["raised"] = attempt(compiled, x)
    if not seen["raised"]:
        tensors[f"{name}/out"], tensors[f"{name}/mask"] = found[0].detach(), found[1]
        gradient, seen["raised"] = attempt(torch.autograd.grad, found[0], x, upstream(one))
        if gradient:
            tensors[f"{name}/gradient"] = gradient[0]
    return seen


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What share was kept, what was refused; of the large one also how long it takes, which counts for nothing."""
    if "calls" not in evidence.values:
        return []
    lines = [f"{case.name}:"]
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=False)):
        mask = evidence.tensors.get(f"{number}/mask")
        gave = first_line(seen["raised"]) if seen["raised"] else "no result"
        if mask is not None and not seen["raised"]:
            gave = f"{int(mask.sum())} of {mask.numel()} are kept"
        lines.append(
            f"  {in_words(one['x'])}, p {one['p']:g}{', a generator of its own' if one['own'] else ''}: {gave}"
        )
    if "seconds" in evidence.values:
        yours, two = evidence.values["seconds"]
        lines.append(
            f"  a million numbers on one core: yours {yours * 1e3:.1f} ms, silu and then dropout {two * 1e3:.1f} ms "
            "(speed isn't graded)"
        )
    return ["\n".join(lines)]
