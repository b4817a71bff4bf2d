"""The fastest engine that is right is taken, and one that misbehaves is a line in the report."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from fxopt_core.benchmark import Measurement
from fxopt_core.optimizer import GraphOptimizer
from fxopt_workbench.engines import Auto, Decision, Trial, choosing, registry
from fxopt_workbench.engines.decision import choose
from fxopt_workbench.engines.module import EngineModule
from fxopt_workbench.engines.trials import Trials

X = torch.randn(4, 3)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def trial(engine: str, *seconds: float, refusal: str = "") -> Trial:
    return Trial(engine, 0.0, seconds, refusal=refusal)


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([trial("fast", 1.0, 1.1, 0.9)], "fast"),
        ([trial("fast", 1.0, 1.1, 0.9), trial("faster", 0.5, 0.6, 0.4)], "faster"),
        # Faster on the whole, but not beyond the spread.
        ([trial("unsteady", 1.0, 2.5, 1.9)], "eager"),
        ([trial("slower", 3.0, 3.1, 2.9)], "eager"),
        ([trial("refused", 0.1, 0.1, 0.1, refusal="wrong"), trial("fast", 1.0, 1.1, 0.9)], "fast"),
        ([trial("never timed")], "eager"),
        ([], "eager"),
    ],
)
def test_the_fastest_beyond_the_spread_is_taken(others: list[Trial], taken: str) -> None:
    assert choose([trial("eager", 2.0, 2.1, 1.9), *others])[0] == taken


def test_without_a_measurement_of_eager_nothing_else_is_taken() -> None:
    assert choose([trial("eager"), trial("fast", 0.1)])[0] == "eager"


class Clock:
    """Real seconds, until nothing is awaited any more but what hangs: then its time is up at once."""

    def __init__(self) -> None:
        self.trials: Trials | None = None
        self.ahead = 0.0

    def __call__(self) -> float:
        if self.trials is not None and not self.ahead:
            waited_for = [
                one.name
                for one in self.trials.contenders.values()
                if one.trial.setup_seconds is None and not one.trial.refusal
            ]
            self.ahead = BUDGET if waited_for == ["hangs"] else 0.0
        return time.monotonic() + self.ahead


BUDGET = 500.0

MISBEHAVING = ("crashes", "crashes_later", "raises", "hangs", "wrong", "leaks", "overwrites", "missing")


@pytest.fixture(scope="module")
def decision() -> Decision:
    """Of `auto` among engines of which one is right."""
    names = {"eager": "EAGER_SLOWED", "right": "RIGHT", **{name: name.upper() for name in MISBEHAVING}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "references", lambda: {one: f"stub_engines:{name}" for one, name in names.items()})
        patch.syspath_prepend(__file__.rpartition("/")[0])
        clock = Clock()

        class Watched(Trials):
            def __enter__(self) -> Trials:
                clock.trials = self
                return self

        patch.setattr(choosing, "Trials", Watched)
        # The stub is as fast as the graph, and a busy machine may find it slower.
        patch.setattr(choosing, "measure_interleaved", lambda calls, **_: dict.fromkeys(calls, Measurement((1.0,))))
        result = GraphOptimizer(network(), (X,)).optimize("inference", engine=Auto(seconds=BUDGET, clock=clock))
    assert isinstance(result.module, EngineModule)
    with torch.no_grad():
        torch.testing.assert_close(result.module(X), network()(X))
    assert isinstance(result.report.engine, Decision)
    return result.report.engine


def test_the_one_that_is_right_is_taken(decision: Decision) -> None:
    assert decision.taken == "right"
    assert not decision["right"].refusal
    assert decision["right"].seconds


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("crashes", "crashed"),
        ("crashes_later", "crashed"),
        ("raises", "RuntimeError: this engine takes no such graph"),
        ("hangs", "not ready"),
        ("wrong", "something else than the graph"),
        ("leaks", "leaks memory"),
        ("overwrites", "a later call overwrites"),
        ("missing", "no-such-package is not installed"),
    ],
)
def test_what_misbehaves_is_refused_with_a_reason(decision: Decision, engine: str, reason: str) -> None:
    assert reason in decision[engine].refusal
    # As wide as it takes, since a table breaks lines.
    assert f"refused: {decision[engine].refusal}" in {row[-1] for row in decision.tables()[0].rows}
