"""`fxopt bench recompute`: a training step within memory budgets, beside torch's own `activation_memory_budget`."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import Table, format_bytes, format_seconds, print_tables

if TYPE_CHECKING:
    import torch
    from torch import nn

SETTINGS = (0.8, 0.5, 0.3, 0.1)
"""Of torch's `activation_memory_budget`: a share of what is saved, which says little about the peak (torch's issue
197838). So ours is asked for the peak that torch's was measured to have."""

EAGER, COMPILED, PEER = "fxopt", "fxopt, torch.compile", "torch"
TRIES = 2
"""How often a budget is tried, then lower where it was not kept: AOTAutograd orders backward as no plan foresees."""


@dataclass(frozen=True)
class RecomputationRow:
    """One way to take the training step.

    Attributes:
        way: `eager` (unchanged), `fxopt` (`GraphOptimizer`), `fxopt, torch.compile`, or `torch`. Both of the latter
            run AOTAutograd's graphs with the kernels of eager mode.
        setting: torch's `activation_memory_budget` that the row belongs to.
        budget: what ours was asked for: a fraction of the unchanged step's peak.
        measured_bytes: most bytes held beyond parameters, inputs and gradients, from allocation events.
        fraction: of the unchanged step's measured peak.
        prepare_seconds: to plan, capture or compile, and the first step.
        seconds: median of a step, forward to backward.
        gradients_agree: whether all gradients are those of the unchanged step, bit for bit.
        refusal: why there is no such step, else `None`.
    """

    way: str
    setting: float
    budget: float | None = None
    measured_bytes: int | None = None
    fraction: float | None = None
    prepare_seconds: float | None = None
    seconds: float | None = None
    gradients_agree: bool | None = None
    refusal: str | None = None


def recompute(
    layers: Annotated[int, typer.Option(min=1)] = 12,
    width: Annotated[int, typer.Option(min=64, help="A multiple of 64; GPT-2's own is 768.")] = 256,
    vocabulary: Annotated[int, typer.Option(min=2, help="GPT-2's own is 50257.")] = 1024,
    tokens: Annotated[int, typer.Option(min=2)] = 256,
    batch: Annotated[int, typer.Option(min=1)] = 2,
    dropout: Annotated[float, typer.Option(min=0, max=0.9, help="GPT-2's own is 0.1.")] = 0.1,
    setting: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="Of torch's budget, may be repeated.", show_default="0.8, 0.5, 0.3, 0.1"),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed steps of each way.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Train a GPT-2 from its configuration: torch's own recomputation at some settings, and ours at its peaks.

    All run in turn. Where torch is faster, or ours cannot hold as little, the table says so; where torch's gradients
    are not those of the unchanged step (it draws dropout anew), too. Exit code 2 for bad input.
    """
    if width % 64:
        typer.echo(f"fxopt bench recompute: the width is {width}; expected a multiple of 64.", err=True)
        raise typer.Exit(2)
    with prints_to_stderr(as_json):
        model, inputs = build_gpt2(layers, width, vocabulary, tokens, batch, dropout)
        rows = compare(model, inputs, tuple(setting or SETTINGS), repeats)
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print_tables(tables(rows))


def build_gpt2(
    layers: int, width: int, vocabulary: int, tokens: int, batch: int, dropout: float = 0.1
) -> tuple[nn.Module, dict[str, Any]]:
    """A GPT-2 in training mode with random weights, heads of width 64, and inputs with labels."""
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
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
    )
    model = GPT2LMHeadModel(config).train()
    # Named, or a warning of transformers breaks Dynamo's graph before the loss.
    model.loss_type = "ForCausalLM"
    ids = torch.randint(0, vocabulary, (batch, tokens))
    return model, {"input_ids": ids, "labels": ids}


def compare(
    model: nn.Module, inputs: dict[str, Any], settings: Sequence[float], repeats: int
) -> list[RecomputationRow]:
    """Measure torch's way at every setting, ours at its peaks, and the unchanged step; times interleaved."""
    import torch

    from fxopt_core.benchmark import measure_interleaved

    baseline, expected = _observe(model, inputs)
    rows = [RecomputationRow("eager", 1.0, 1.0, baseline, 1.0, 0.0, None, True)]
    runs = [_step(model, inputs)]

    def add(way: str, setting: float, budget: float | None, make: Callable[[], nn.Module]) -> RecomputationRow:
        start = time.perf_counter()
        candidate = make()
        _step(candidate, inputs)()
        prepared = time.perf_counter() - start
        peak, gradients = _observe(candidate, inputs)
        agree = all(map(torch.equal, gradients, expected))
        rows.append(RecomputationRow(way, setting, budget, peak, peak / baseline, prepared, None, agree))
        runs.append(_step(candidate, inputs))
        return rows[-1]

    planner = _planner(model, inputs)
    # Every compiled copy is a variant of the same code to Dynamo.
    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=256):
        for setting in settings:
            peer = add(PEER, setting, None, lambda setting=setting: theirs(model, setting))  # type: ignore[misc]
            for way, make in ((EAGER, planner), (COMPILED, lambda budget: _compiled(model, budget))):
                budget = goal = peer.fraction or 1.0
                for _ in range(TRIES):
                    try:
                        row = add(way, setting, budget, lambda make=make, budget=budget: make(min(budget, 1.0)))  # type: ignore[misc]
                    except (ValueError, torch._dynamo.exc.BackendCompilerFailed) as error:
                        rows.append(RecomputationRow(way, setting, budget, refusal=_reason(error)))
                        runs.append(lambda: None)
                        break
                    unchanged = row.measured_bytes in {other.measured_bytes for other in rows[:-1] if other.way == way}
                    if unchanged or (row.fraction or 0) <= goal:
                        break
                    budget *= 0.98 * goal / (row.fraction or 1)
        timed = {str(number): run for number, run in enumerate(runs) if rows[number].refusal is None}
        measured = measure_interleaved(timed, warmup=1, repeats=repeats)
    return [
        replace(row, seconds=measured[str(number)].median) if str(number) in measured else row
        for number, row in enumerate(rows)
    ]


def theirs(model: nn.Module, setting: float) -> nn.Module:
    """A copy to be compiled with torch's `activation_memory_budget`."""
    import torch
    from torch._functorch import config

    # A function of its own for each setting, or Dynamo would use the first one's result again.
    def backend(graph_module: Any, inputs: Any) -> Any:
        with config.patch(activation_memory_budget=setting):
            return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

    compiled: Any = torch.compile(copy.deepcopy(model), backend=backend, fullgraph=True)
    return compiled


def _planner(model: nn.Module, inputs: dict[str, Any]) -> Callable[[float], nn.Module]:
    """From a budget to the optimised module; the model is captured once."""
    from fxopt_core.optimizer import GraphOptimizer

    optimizer = GraphOptimizer(model, inputs)
    # Gradients are compared here, bit for bit.
    return lambda budget: optimizer.optimize(["recomputation"], verify=False, memory_budget=budget).module


def _compiled(model: nn.Module, budget: float) -> nn.Module:
    """A copy to be compiled with our pass, and the kernels of eager mode."""
    import torch

    options: Any = {"passes": ["recomputation"], "memory_budget": budget, "then": "aot_eager"}
    compiled: Any = torch.compile(copy.deepcopy(model), backend="fxopt", options=options, fullgraph=True)
    return compiled


def _reason(error: Exception) -> str:
    """Why there is no such step.

    Raises:
        Exception: the same, where it is no refusal of a budget.
    """
    from fxopt_core.passes.recomputation import BudgetError

    inner = getattr(error, "inner_exception", error)
    if not isinstance(inner, BudgetError):
        raise error
    return str(inner)


def best_of_ours(peer: RecomputationRow, rows: Sequence[RecomputationRow]) -> RecomputationRow | None:
    """The fastest of ours that holds no more than a row of torch's; `None` where nothing holds as little."""
    limit = peer.measured_bytes or 0
    ours = [row for row in rows if row.way in (EAGER, COMPILED) and (row.measured_bytes or limit + 1) <= limit]
    return min(ours, key=lambda row: row.seconds or 0, default=None)


def verdict(peer: RecomputationRow, ours: RecomputationRow | None) -> str:
    """Who is faster at no more memory than torch takes, and whether torch's gradients count."""
    wrong = "" if peer.gradients_agree else "; torch's gradients are wrong"
    if ours is None:
        return f"only torch holds so little{wrong}"
    ratio = (ours.seconds or 0) / (peer.seconds or 1)
    faster = f"torch is {ratio:.2f}× as fast" if ratio > 1 else f"{ours.way} is {1 / ratio:.2f}× as fast"
    return faster + wrong


def tables(rows: Sequence[RecomputationRow]) -> tuple[Table, Table]:
    """Every way that was measured; then, for each setting of torch, the fastest of ours at its peak."""
    every = []
    for row in rows:
        start = (row.way, f"{row.setting}", "" if row.budget is None else f"{row.budget:.3f}")
        if row.refusal is not None:
            every.append((*start, "refused", "", "", "", ""))
            continue
        seconds = (format_seconds(row.prepare_seconds or 0), format_seconds(row.seconds or 0))
        agree = "agree" if row.gradients_agree else "DIFFER"
        every.append((*start, format_bytes(row.measured_bytes), f"{row.fraction:.3f}", *seconds, agree))
    beside = []
    for peer in (row for row in rows if row.way == PEER):
        ours = best_of_ours(peer, rows)
        mine = ("none", "", "")
        if ours is not None:
            mine = (ours.way, f"{ours.fraction:.3f}", format_seconds(ours.seconds or 0))
        theirs_ = (f"{peer.setting}", f"{peer.fraction:.3f}", format_seconds(peer.seconds or 0))
        beside.append((*theirs_, *mine, verdict(peer, ours)))
    headings = ("way", "torch's setting", "our budget", "peak", "of peak", "prepared in", "step", "gradients")
    words = ("torch's setting", "their peak", "their step", "ours", "our peak", "our step", "who is faster")
    refusals = tuple(f"{row.way} at torch's {row.setting}: {row.refusal}" for row in rows if row.refusal is not None)
    return (
        Table("Every way", headings, every, refusals),
        Table("The fastest of ours that holds no more than torch", words, beside, words=("ours", "who is faster")),
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
