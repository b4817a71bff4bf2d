"""What happens around the work of a pass."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass


class Watching(OptimizationPass):
    """Notes whether the garbage collector is on, and may raise."""

    name = "watching"

    def __init__(self, error: type[Exception] | None) -> None:
        self.error = error
        self.seen: list[bool] = []

    def analyze(self, editor: GraphEditor) -> Analysis:
        self.seen.append(gc.isenabled())
        if self.error is not None:
            raise self.error
        return Analysis([Opportunity(next(iter(editor.graph.nodes)))])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        self.seen.append(gc.isenabled())


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("error", [None, KeyError])
def test_the_collector_pauses_while_a_pass_runs_and_is_then_as_it_was(on: bool, error: type[Exception] | None) -> None:
    watching = Watching(error)
    editor = GraphEditor(fx.symbolic_trace(torch.nn.ReLU()))
    assert gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        if error is None:
            watching.run(editor)
        else:
            with pytest.raises(error):
                watching.run(editor)
        after = gc.isenabled()
    finally:
        gc.enable()
    assert after == on
    assert watching.seen == [False] * (2 if error is None else 1)
