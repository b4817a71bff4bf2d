"""What `fxopt bench capture` times: every method of capture, and peers, up to a capture that is known to be right."""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import nn

from fxopt_core.benchmark.measuring import Measurement
from fxopt_core.capture import Captured, agreement, capture, capture_methods
from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.check_against_model import check_against_model
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.methods.dynamo import GraphExtractor
from fxopt_core.capture.new_values import new_values
from fxopt_core.capture.running import Runner

Inputs = Mapping[str, Any]
Way = Callable[[nn.Module, Inputs], Captured]

AUTO = "auto"
TORCHSCRIPT = "torchscript"


def _exporter(model: nn.Module, inputs: Inputs) -> Captured:
    """`transformers.exporters.DynamoExporter`; what it computes from the inputs beforehand is computed at each call."""
    from transformers.exporters import DynamoConfig, DynamoExporter
    from transformers.exporters.utils import prepare_for_export

    exporter: Any = DynamoExporter()
    program = exporter.export(model, dict(inputs), config=DynamoConfig(dynamic=False)).program
    runner = Runner(
        program.module(),
        lambda module, **given: module(**dict(prepare_for_export(model, given)[1])),
    )
    return Captured((CapturedGraph(program.graph_module, ()),), "transformers.exporters", "aten", runner=runner)


def _export(model: nn.Module, inputs: Inputs) -> Captured:
    program = torch.export.export(model, (), dict(inputs))
    runner = Runner(program.module())
    return Captured((CapturedGraph(program.graph_module, ()),), "torch.export.export", "aten", runner=runner)


def _fullgraph(model: nn.Module, inputs: Inputs) -> Captured:
    extractor = GraphExtractor()
    compiled: Any = torch.compile(model, backend=extractor, fullgraph=True)
    compiled(**inputs)
    runner = Runner(compiled)
    return Captured(tuple(extractor.partitions), "torch.compile", "torch", runner=runner)


PEERS: dict[str, Way] = {
    "torch.export.export": _export,
    "torch.compile, fullgraph": _fullgraph,
    "transformers.exporters": _exporter,
}
"""Without this package, sizes fixed to the example's."""


@dataclass
class Timed:
    """One way to capture one model.

    Attributes:
        model: its name.
        way: a method of `capture`, or a peer.
        peer: whether it is one.
        capturing: seconds of each run without the comparisons.
        comparing: seconds of each run spent on calls of the model and of the graphs, to compare them.
        graphs: how many it gave; 0 where it failed.
        verdict: `right`, `specialised` (it refuses something, loudly), `wrong`, `not checked` or `failed`.
        why: what speaks against it.
        level: the dialect of the graphs.
    """

    model: str
    way: str
    peer: bool
    capturing: list[float] = field(default_factory=list)
    comparing: list[float] = field(default_factory=list)
    graphs: int = 0
    verdict: str = "failed"
    why: str = ""
    level: str = ""

    @property
    def total(self) -> Measurement:
        """Seconds of each run, comparisons included."""
        return Measurement(tuple(a + b for a, b in zip(self.capturing, self.comparing, strict=True)))

    @property
    def single_and_right(self) -> bool:
        """Whether it gave one FX graph that was wrong on no check."""
        return self.graphs == 1 and self.verdict in ("right", "specialised") and self.level != TORCHSCRIPT


def time_captures(
    name: str, model: nn.Module, inputs: Inputs, repeats: int, done: Callable[[str], None]
) -> list[Timed]:
    """Capture one model in every way, in turn, after one round that is not timed.

    All ways run in this process; before each run Dynamo is reset and garbage collected. Every capture that can be
    called is compared with the model on the same calls as `auto` compares on, either by `capture` or here.

    Args:
        name: of the model.
        model: stays as it is.
        inputs: keyword arguments.
        repeats: timed runs of each way.
        done: told of each run of a way, by its name; of a way that failed, of all its runs.
    """
    ways: dict[str, Way] = {method: partial(_by_method, method) for method in capture_methods()} | PEERS
    rows = {way: Timed(name, way, way in PEERS) for way in ways}
    for turn in range(1 + repeats):
        for way, function in ways.items():
            done(way)
            if turn and rows[way].verdict == "failed":
                continue
            try:
                captured, capturing, comparing = _run(function, model, inputs)
            except Exception as error:  # a way may fail as it likes; it is shown beside the others
                rows[way].why = in_one_line(error, way, NOTHING_DYNAMIC)
                continue
            if turn:
                rows[way].capturing.append(capturing)
                rows[way].comparing.append(comparing)
            else:
                rows[way].graphs, rows[way].level = len(captured.partitions), captured.level
                rows[way].verdict, rows[way].why = _judged(captured)
    return list(rows.values())


def _by_method(method: str, model: nn.Module, inputs: Inputs) -> Captured:
    return capture(model, dict(inputs), method)


def _run(way: Way, model: nn.Module, inputs: Inputs) -> tuple[Captured, float, float]:
    torch._dynamo.reset()
    copied, given = copy.deepcopy((model, dict(inputs)))
    gc.collect()
    with _timed_comparisons() as spent:
        start = time.perf_counter()
        captured = way(copied, given)
        if not captured.agreements:
            captured = check_against_model(captured, model, (), given, new_values(model, (), given, NOTHING_DYNAMIC))
        seconds = time.perf_counter() - start
    return captured, seconds - sum(spent), sum(spent)


@contextmanager
def _timed_comparisons() -> Iterator[list[float]]:
    """The seconds of each comparison inside, and of each call of the model that it needs, as they come."""
    spent: list[float] = []
    inside = False

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside:
                return function(*args, **kwargs)
            inside, start = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                inside = False
                spent.append(time.perf_counter() - start)

        return call

    with ExitStack() as stack:
        for owner, name in ((agreement, "State"), (agreement, "agreement_with"), (agreement.Reference, "without")):
            stack.enter_context(mock.patch.object(owner, name, timed(getattr(owner, name))))
        yield spent


def _judged(captured: Captured) -> tuple[str, str]:
    """The verdict, and what speaks against the capture."""
    wrong = [one for one in captured.agreements if not one.agrees and not one.refusal]
    if wrong:
        return "wrong", "; ".join(map(str, wrong))
    if not captured.agreements:
        return "not checked", "its graphs cannot be called as the model"
    return ("specialised", f"refuses {', '.join(captured.specialised)}") if captured.specialised else ("right", "")
