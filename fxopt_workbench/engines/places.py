"""Where an optimised graph stands: by itself, as a module, or inside of Dynamo, as what a backend was handed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.capture.module import CapturedModule
from fxopt_core.optimizer.dynamo_graph import plain_values
from fxopt_core.optimizer.engines import Request
from fxopt_core.verification.isolation import private_copy, split_example_inputs
from fxopt_workbench.engines.engine import EAGER, Engine
from fxopt_workbench.engines.module import EngineModule, FlatEngine
from fxopt_workbench.engines.program import NoProgramError, Program, program_of


class AsModule:
    """A captured model, called as the model is called.

    Args:
        request: asks for it.

    Raises:
        NoProgramError: it is not one graph.
    """

    def __init__(self, request: Request) -> None:
        if not isinstance(request.module, CapturedModule):
            raise NoProgramError("the model takes several graphs with Python code between them")
        self.module = request.module
        self.program: Program = program_of(request.module, request.example_inputs)
        self.example = request.example_inputs

    def objection(self, engine: Engine) -> str:
        """Why an engine cannot stand here; empty where it can."""
        return ""

    def over(self, engine: Engine, folder: Path, threads: int) -> Any:
        """The model over an engine. May raise anything."""
        return EngineModule(self.module, engine, self.program, engine.build(self.program, folder, threads))

    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call."""
        _, args, kwargs = private_copy(None, *split_example_inputs(self.example))
        return args, kwargs


class InsideDynamo:
    """A graph that Dynamo captured, called with weights, sizes and inputs; Dynamo checks each call before.

    Args:
        request: asks for it.

    Raises:
        NoProgramError: an engine cannot take it.
    """

    def __init__(self, request: Request) -> None:
        graph_module: fx.GraphModule = request.module
        self.module, self.values = graph_module, list(request.example_inputs)
        self.given, own = plain_values(graph_module, self.values)
        held = [number for number, mine in enumerate(own) if mine and isinstance(self.given[number], torch.Tensor)]
        self.program = program_of(graph_module, tuple(self.given), held)

    def objection(self, engine: Engine) -> str:
        """Why an engine cannot stand here; empty where it can."""
        if engine.name == "inductor-freezing":
            return "inside torch.compile it is Inductor's own option, which does not see when weights change"
        return ""

    def over(self, engine: Engine, folder: Path, threads: int) -> Any:
        """The graph over an engine. May raise anything."""
        if engine.name == EAGER:
            return self.module.forward
        if engine.name == "inductor":
            # Dynamo is at work here, and hands its graph on as to any backend.
            return _Called(torch._TorchCompileInductorWrapper("default", {}, None)(self.module, self.values))
        with torch._guards.tracing(None):
            run = engine.build(self.program, folder, threads)
        return FlatEngine(self.module, engine, self.program, run, self.given)

    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call."""
        return tuple(self.given), {}


class _Called(nn.Module):
    """A compiled function, with the name under which modules are called."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: Any) -> Any:
        return self.function(*values)


def unchanged(request: Request) -> Any:
    """What runs a request without any engine."""
    return request.module.forward if _is_inside(request) else request.module


def _is_inside(request: Request) -> bool:
    return isinstance(request.module, fx.GraphModule) and not isinstance(request.module, CapturedModule)


def place_of(request: Request) -> AsModule | InsideDynamo:
    """Where the graph of a request stands.

    Raises:
        NoProgramError: there is no single graph of tensors.
    """
    return InsideDynamo(request) if _is_inside(request) else AsModule(request)
