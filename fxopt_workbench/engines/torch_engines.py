"""The engines that are part of PyTorch: its operators one by one, and Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from fxopt_workbench.engines.engine import EAGER, Engine
from fxopt_workbench.engines.program import Program, Run, as_the_graph_gives_it, detached

KERNELS = "kernels.bin"
"""The file with what Inductor compiled."""


def build_eager(program: Program, folder: Path, threads: int) -> Run:
    """The graph as it is."""
    run: Run = program.graph.forward
    return run


def build_inductor(program: Program, folder: Path, threads: int) -> Run:
    """Inductor's kernels; weights stay inputs, and gradients flow."""
    return _compiled(program.graph, program, folder, {})


def build_inductor_freezing(program: Program, folder: Path, threads: int) -> Run:
    """Inductor with weights computed and laid out once, and convolutions with the channels innermost in memory."""
    graph, facts = detached(program.graph), program.facts()
    with torch.no_grad():
        for owner in graph.modules():
            # What passes made are plain attributes, which no module knows of.
            places: list[dict[str, Any]] = [owner._parameters, owner._buffers, vars(owner)]
            for held in places:
                for name, value in held.items():
                    if isinstance(value, torch.Tensor) and value.dim() == 4:
                        laid_out = value.contiguous(memory_format=torch.channels_last)
                        held[name] = nn.Parameter(laid_out, False) if isinstance(value, nn.Parameter) else laid_out
        run = _compiled(graph, program, folder, {"freezing": True})

    def without_gradients(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return [as_the_graph_gives_it(*both) for both in zip(run(*tensors), facts, strict=True)]

    return without_gradients


def _compiled(graph: fx.GraphModule, program: Program, folder: Path, settings: dict[str, Any]) -> Run:
    kept = folder / KERNELS
    if kept.exists():
        torch.compiler.load_cache_artifacts(kept.read_bytes())
    # With torch's own numbers a graph that draws gives what it gave.
    settings = {"fallback_random": True, **settings}
    # Generated for this graph alone, so that no other one's compilations count against Dynamo's limit.
    compiled: Run = torch.compile(graph.forward, dynamic=program.sizes_open, fullgraph=True, options=settings)
    compiled(*(tensor.clone() for tensor in program.example))
    artefacts = torch.compiler.save_cache_artifacts()
    if artefacts is not None and not kept.exists():
        kept.write_bytes(artefacts[0])
    return compiled


ENGINE_EAGER = Engine(EAGER, build_eager, gradients=True, effects=True, live_weights=True, other_sizes=True)

ENGINE_INDUCTOR = Engine(
    "inductor",
    build_inductor,
    gradients=True,
    effects=True,
    live_weights=True,
    other_sizes=True,
    artefact=True,
    slow_to_build=True,
)

ENGINE_INDUCTOR_FREEZING = Engine("inductor-freezing", build_inductor_freezing, artefact=True, slow_to_build=True)
