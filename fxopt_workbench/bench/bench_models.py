"""`fxopt bench models`: optimised models beside eager PyTorch, Inductor, ONNX Runtime and OpenVINO."""

from __future__ import annotations

import copy
import importlib.util
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fxopt_workbench.commands.models import chosen_names
from fxopt_workbench.tables import Table, output_console

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[], Any]

PACKAGES = {"ONNX Runtime": ("onnxruntime", "onnx", "onnxscript"), "OpenVINO": ("openvino",)}
"""Peers that are compared when these packages are installed."""

REFERENCE = "eager"


@dataclass(frozen=True)
class ModelRow:
    """One way to run one model.

    Attributes:
        model: its name.
        candidate: how it was run.
        seconds: median of a call.
        spread: width of the middle half of the calls, in seconds.
        speed_up: over eager, of the medians.
        error: largest difference from eager PyTorch in float64, in units of the output; `None` where that failed.
        failure: why it could not be run, else `None`.
    """

    model: str
    candidate: str
    seconds: float | None
    spread: float | None
    speed_up: float | None
    error: float | None
    failure: str | None = None


def models(
    only: Annotated[str | None, typer.Option(help="One model, or several with commas.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls of each candidate.")] = 20,
    tiny: Annotated[bool, typer.Option("--tiny", help="The small versions, to see whether everything works.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Time six models, without gradients, run in turn: eager, fxopt, Inductor, and what else is installed.

    Exit code 2 for bad input. A candidate that cannot run a model says why and is no error.
    """
    from fxopt_workbench import zoo

    known = [name.removesuffix("-moderate") for name in zoo.names("moderate")]
    try:
        names = chosen_names("model", only, known)
    except ValueError as error:
        typer.echo(f"fxopt bench models: {error}", err=True)
        raise typer.Exit(2) from error
    rows: list[ModelRow] = []
    console = output_console()
    progress = Console(stderr=True)
    for name in names:
        chosen = zoo.build(name if tiny else f"{name}-moderate", "cpu")
        model: Any = chosen.model
        # Attention written out, so that each candidate fuses it as well as it can.
        model.set_attn_implementation("eager")
        with progress.status(f"timing {name}"):
            rows += compare(name, model, dict(chosen.example_inputs), repeats)
        if not as_json:
            console.print(_table(name, [row for row in rows if row.model == name]))
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    for peer, packages in PACKAGES.items():
        if not _installed(packages):
            console.print(f"{peer} was not compared; to do so: pip install {' '.join(packages)}")


def compare(name: str, model: nn.Module, inputs: dict[str, Any], repeats: int) -> list[ModelRow]:
    """Run one model in every way there is, interleaved."""
    import torch

    from fxopt_core.benchmark import measure_interleaved
    from fxopt_core.benchmark.accuracy import largest_error

    exact = _tensors(copy.deepcopy(model).double()(**_double(inputs)))
    runs: dict[str, Run] = {}
    failures: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    with torch.no_grad():
        for candidate, make in candidates(model, inputs):
            try:
                with warnings.catch_warnings(action="ignore"):  # of converters, about what the error shows
                    run = make()
                errors[candidate] = largest_error(_tensors(run()), exact)
            except Exception as error:  # a peer may raise anything; it is shown beside the others' figures
                failures[candidate] = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            else:
                runs[candidate] = run
        measured = measure_interleaved(runs, warmup=3, repeats=repeats)
    eager = measured[REFERENCE].median
    rows = [
        ModelRow(name, candidate, m.median, m.interquartile_range, eager / m.median, errors[candidate])
        for candidate, m in measured.items()
    ]
    return rows + [ModelRow(name, candidate, None, None, None, None, why) for candidate, why in failures.items()]


def candidates(model: nn.Module, inputs: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Run]]]:
    """Every way to run the model, by name, as functions that set it up."""
    import torch

    def optimized() -> nn.Module:
        from fxopt_core.optimizer import GraphOptimizer

        return GraphOptimizer(model, inputs).optimize("inference").module

    def runs(function: Any) -> Run:
        return lambda: function(**inputs)

    def compiled(function: Callable[[], Any], **config: Any) -> Run:
        # Compiled here and not at the first timed call; the settings hold while it compiles.
        torch._dynamo.reset_code_caches()
        with torch._inductor.config.patch(**config):
            result = torch.compile(function(), fullgraph=False)
            result(**inputs)
        return runs(result)

    yield REFERENCE, lambda: runs(model)
    yield "fxopt, then eager", lambda: runs(optimized())
    yield "fxopt, then Inductor", lambda: compiled(optimized)
    yield "Inductor", lambda: compiled(lambda: copy.deepcopy(model))
    yield "Inductor, freezing", lambda: compiled(lambda: copy.deepcopy(model), freezing=True)
    if _installed(PACKAGES["ONNX Runtime"]):
        yield "ONNX Runtime", lambda: _onnx_runtime(model, inputs)
    if _installed(PACKAGES["OpenVINO"]):
        yield "OpenVINO", lambda: _openvino(model, inputs)


def _installed(packages: tuple[str, ...]) -> bool:
    return all(importlib.util.find_spec(package) for package in packages)


def _onnx_runtime(model: nn.Module, inputs: dict[str, Any]) -> Run:
    import onnxruntime
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(copy.deepcopy(model), kwargs=inputs, f=path, dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait for work at full speed would slow down whoever runs next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {node.name: inputs[node.name].numpy() for node in session.get_inputs()}
    return lambda: [torch.from_numpy(value) for value in session.run(None, given)]


def _openvino(model: nn.Module, inputs: dict[str, Any]) -> Run:
    import openvino
    import torch

    converted = openvino.convert_model(copy.deepcopy(model), example_input=inputs)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    given = {name: tensor.numpy() for name, tensor in inputs.items()}
    return lambda: [torch.from_numpy(value) for value in compiled(given).values()]


def _tensors(output: Any) -> list[Any]:
    """The tensors of an output. Peers return lists of the same tensors in the same order."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _double(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


def _table(name: str, rows: list[ModelRow]) -> Table:
    cells = []
    for row in rows:
        if row.seconds is None or row.spread is None:
            cells.append((row.candidate, "could not run it", "", "", row.failure or ""))
        else:
            error = "not known" if row.error is None else f"{row.error:.1e}"
            figures = (f"{1000 * row.seconds:.2f} ms", f"± {500 * row.spread:.2f} ms", f"{row.speed_up:.2f}×")
            cells.append((row.candidate, *figures, error))
    headings = ("candidate", "median", "spread", "speed-up", "error")
    return Table(f"{name}, against eager", headings, cells, words=("error",))
