"""`fxopt bench recompute`: a training step within memory budgets, beside torch's `activation_memory_budget`."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxopt_workbench.tables import Table, format_bytes, format_seconds, output_console

if TYPE_CHECKING:
    import torch
    from torch import nn

BUDGETS = (0.8, 0.5, 0.3, 0.1)
MODULES, JOINT, PEER = "fxopt, modules", "fxopt, joint graph", "torch"


@dataclass(frozen=True)
class RecomputationRow:
    """One way to take the training step.

    Attributes:
        way: `fxopt, modules` (eager mode), `fxopt, joint graph` or `torch` (both with the kernels of eager mode).
        setting: the budget; for torch its `activation_memory_budget`.
        predicted_bytes: peak that was expected; `None` for torch.
        measured_bytes: most bytes held beyond parameters, inputs and gradients, from allocation events.
        fraction: of the unchanged step's measured peak.
        within: whether the fraction is at most the setting.
        seconds: median of a step, forward to backward.
        gradients_agree: whether all gradients are those of the unchanged step, bit for bit.
        refusal: why there is no such step, else `None`.
    """

    way: str
    setting: float
    predicted_bytes: int | None = None
    measured_bytes: int | None = None
    fraction: float | None = None
    within: bool | None = None
    seconds: float | None = None
    gradients_agree: bool | None = None
    refusal: str | None = None


def recompute(
    layers: Annotated[int, typer.Option(min=1)] = 12,
    width: Annotated[int, typer.Option(min=64, help="A multiple of 64; GPT-2's own is 768.")] = 256,
    vocabulary: Annotated[int, typer.Option(min=2, help="GPT-2's own is 50257.")] = 1024,
    tokens: Annotated[int, typer.Option(min=2)] = 256,
    batch: Annotated[int, typer.Option(min=1)] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Timed steps of each way.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Train a GPT-2 from its configuration within budgets of 0.8, 0.5, 0.3 and 0.1 of its peak, all run in turn.

    Where the vocabulary is large, logits and loss bound the peak from below, and small budgets are refused.
    Exit code 2 for bad input.
    """
    if width % 64:
        typer.echo(f"fxopt bench recompute: the width is {width}; expected a multiple of 64.", err=True)
        raise typer.Exit(2)
    model, inputs = build_gpt2(layers, width, vocabulary, tokens, batch)
    rows = compare(model, inputs, BUDGETS, repeats)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    console = output_console()
    console.print(_table(rows))
    for row in rows:
        if row.refusal is not None:
            console.print(f"{row.way} {row.setting}, refused: {row.refusal}")
    for line in at_equal_peak(rows):
        console.print(line)


def build_gpt2(layers: int, width: int, vocabulary: int, tokens: int, batch: int) -> tuple[nn.Module, dict[str, Any]]:
    """A GPT-2 in training mode with random weights, heads of width 64 and its usual dropout, and inputs with labels."""
    import torch

    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError as error:
        raise typer.BadParameter("this benchmark needs transformers: pip install 'fxopt[hf]'") from error
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=layers,
        n_embd=width,
        n_head=width // 64,
        vocab_size=vocabulary,
        n_positions=tokens,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config).train()
    # Named, or a warning of transformers breaks Dynamo's graph before the loss.
    model.loss_type = "ForCausalLM"
    ids = torch.randint(0, vocabulary, (batch, tokens))
    return model, {"input_ids": ids, "labels": ids}


def compare(model: nn.Module, inputs: dict[str, Any], budgets: Sequence[float], repeats: int) -> list[RecomputationRow]:
    """Measure every way at every budget, interleaved with the unchanged step."""
    import torch

    from fxopt_core.benchmark import measure_interleaved

    runs: dict[tuple[str, float], Callable[[], None]] = {}
    rows: dict[tuple[str, float], RecomputationRow] = {}
    baseline, expected = _observe(model, inputs)

    def add(way: str, setting: float, made: Made) -> None:
        if isinstance(made, str):
            rows[way, setting] = RecomputationRow(way, setting, refusal=made)
            return
        candidate, predicted = made
        peak, gradients = _observe(candidate, inputs)
        agree = all(map(torch.equal, gradients, expected))
        fraction = peak / baseline
        rows[way, setting] = RecomputationRow(way, setting, predicted, peak, fraction, fraction <= setting, None, agree)
        runs[way, setting] = _step(candidate, inputs)

    # Every compiled copy is a variant of the same code to Dynamo.
    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=256):
        for setting in budgets:
            add(PEER, setting, theirs(model, inputs, setting))
        # To be compared at the peer's peaks, these are asked for too, rounded down.
        peaks = {math.floor((row.fraction or 1) * 1000) / 1000 for row in rows.values()}
        for way, budget, made in ours(model, inputs, sorted({*budgets, *peaks}, reverse=True)):
            add(way, budget, made)
        runs["eager", 1.0] = _step(model, inputs)
        rows["eager", 1.0] = RecomputationRow("eager", 1.0, None, baseline, 1.0, True, None, True)
        measured = measure_interleaved(
            {f"{way} {setting}": run for (way, setting), run in runs.items()}, warmup=1, repeats=repeats
        )
    for key in runs:
        rows[key] = RecomputationRow(**{**asdict(rows[key]), "seconds": measured[f"{key[0]} {key[1]}"].median})
    return list(rows.values())


Made = tuple["nn.Module", int | None] | str
"""A model and its predicted peak, or why there is none."""


def theirs(model: nn.Module, inputs: dict[str, Any], setting: float) -> Made:
    """A compiled copy with torch's `activation_memory_budget`, which has run a step already."""
    import torch
    from torch._functorch import config

    # A function of its own for each setting, or Dynamo would use the first one's result again.
    def backend(graph_module: Any, inputs: Any) -> Any:
        with config.patch(activation_memory_budget=setting):
            return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

    compiled: Any = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
    _step(compiled, inputs)()
    return compiled, None


def ours(model: nn.Module, inputs: dict[str, Any], budgets: Sequence[float]) -> Iterator[tuple[str, float, Made]]:
    """Both levels at every budget. What comes compiled has run a step already."""
    import torch
    from torch._dynamo.exc import BackendCompilerFailed

    from fxopt_core.passes.recomputation import BudgetError, JointPoint, RecomputationPlanner, recomputation_backend

    planner = RecomputationPlanner(model, inputs)
    for budget in budgets:
        try:
            result = planner.choose(budget)
            yield MODULES, budget, (result.module, result.point.predicted_bytes)
        except BudgetError as error:
            yield MODULES, budget, str(error)
    for budget in budgets:
        points: list[JointPoint] = []
        backend = recomputation_backend(budget, lambda curve, point, points=points: points.append(point))  # type: ignore[misc]
        compiled: Any = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
        try:
            _step(compiled, inputs)()
            yield JOINT, budget, (compiled, points[0].predicted_bytes)
        except BackendCompilerFailed as error:
            if not isinstance(error.inner_exception, BudgetError):
                raise
            yield JOINT, budget, str(error.inner_exception)


def at_equal_peak(rows: Sequence[RecomputationRow]) -> Iterator[str]:
    """For each setting of torch, the fastest of ours that holds no more at its peak."""
    for peer in rows:
        if peer.way != PEER or peer.measured_bytes is None or peer.seconds is None:
            continue
        sparing = [row for row in rows if row.way != PEER and (row.measured_bytes or 2**62) <= peer.measured_bytes]
        if not sparing:
            yield f"torch {peer.setting}: nothing of ours holds as little."
            continue
        best = min(sparing, key=lambda row: row.seconds or 0)
        yield (
            f"torch {peer.setting}: {peer.seconds:.3f} s at {peer.fraction:.3f} of the peak; {best.way} "
            f"{best.setting}: {best.seconds:.3f} s at {best.fraction:.3f}; "
            f"ratio {(best.seconds or 0) / peer.seconds:.2f}"
        )


def _step(model: nn.Module, inputs: dict[str, Any]) -> Callable[[], None]:
    def step() -> None:
        model.zero_grad()
        model(**inputs).loss.backward()

    return step


def _observe(model: nn.Module, inputs: dict[str, Any]) -> tuple[int, list[torch.Tensor]]:
    """Measured peak and gradients of one step with fixed random numbers, after one to warm up."""
    import torch

    from fxopt_core.costs import record_allocations

    step = _step(model, inputs)
    step()
    model.zero_grad()
    torch.manual_seed(1)
    _, record = record_allocations(step)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return record.peak_bytes(without=gradients), [gradient.clone() for gradient in gradients]


def _table(rows: Sequence[RecomputationRow]) -> Table:
    cells = []
    for row in rows:
        if row.refusal is not None:
            cells.append((row.way, f"{row.setting}", "", "", "", "refused", "", ""))
            continue
        within = "" if row.way == PEER else ("yes" if row.within else "no")
        cells.append(
            (
                row.way,
                f"{row.setting}",
                format_bytes(row.predicted_bytes),
                format_bytes(row.measured_bytes),
                f"{row.fraction:.3f}",
                within,
                format_seconds(row.seconds or 0),
                "agree" if row.gradients_agree else "DIFFER",
            )
        )
    headings = ("way", "budget or setting", "predicted", "measured", "of peak", "within", "step", "gradients")
    return Table("", headings, cells)
