"""The harness: what it runs, in which order, and what it reports; real times are never asserted on."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from fxopt_core import devices
from fxopt_core.benchmark import BenchmarkReport, Candidate, Measurement, benchmark
from fxopt_core.benchmark.accuracy import largest_error
from fxopt_core.benchmark.memory import peak_bytes
from fxopt_core.benchmark.running import EAGER
from fxopt_workbench.results.benchmarks import against_first, alt_text, plot
from fxopt_workbench.tables import format_bytes, format_calls, format_seconds

CPU = torch.device("cpu")


@pytest.fixture
def tick() -> Callable[[], float]:
    """A clock that moves on by one second with every reading."""
    readings = itertools.count()
    return lambda: float(next(readings))


class Broken(nn.Module):
    """Has one graph break between two operations."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2


def test_a_model_with_two_backends(tick: Callable[[], float]) -> None:
    waited = []
    report = benchmark(
        Broken(),
        (torch.ones(3),),
        backends=(EAGER, "aot_eager"),
        warmup=1,
        repeats=3,
        clock=tick,
        synchronize=lambda: waited.append(1),
    )
    assert [candidate.name for candidate in report] == [EAGER, "aot_eager"]
    eager, compiled = report
    assert (eager.graphs, eager.operations) == (0, 0)
    assert (compiled.graphs, compiled.operations) == (2, 2)
    assert eager.measurement.seconds == compiled.measurement.seconds == (1.0, 1.0, 1.0)
    assert compiled.largest_error == 0.0
    assert eager.break_even_calls is None
    assert compiled.break_even_calls == math.inf
    assert len(waited) == 2 * (2 + 2 * 3)  # two waits for each timed call: two first calls, six in turn
    assert report.notes == ()


def test_first_calls_compile_and_later_calls_do_not() -> None:
    compiled = []

    def backend(graph_module: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append("compile")
        return graph_module

    torch._dynamo.reset()
    function = torch.compile(lambda x: x + 1, backend=backend)
    function(torch.ones(2))
    compiled.clear()

    def clock() -> float:
        compiled.append("clock")
        return 0.0

    benchmark({"compiled": lambda: function(torch.ones(2))}, device="cpu", warmup=2, repeats=2, clock=clock)
    # Compiled already before, and yet its first call compiles; between the later readings nothing does.
    assert compiled == ["clock", "compile", "clock", "compile", "clock", "clock", "clock", "clock"]


def test_functions_run_in_turn_and_are_compared_with_the_first() -> None:
    calls = []

    def candidate(name: str, value: float) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            calls.append(name)
            return torch.tensor([1.0, value])

        return run

    report = benchmark({"A": candidate("A", 2.0), "B": candidate("B", 2.5)}, device="cpu", warmup=1, repeats=2)
    # First calls, compiling anew, warm-up, two timed rounds, memory, error.
    assert "".join(calls) == "AB" * 7
    assert report["B"].largest_error == 0.5
    assert report["A"].largest_error == 0.0
    assert (report.warmup, report.repeats, report.device) == (1, 2, "cpu")


def test_compiling_while_measuring_is_noted() -> None:
    sizes = itertools.count(2)
    torch._dynamo.reset()
    function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    report = benchmark({"new sizes": lambda: function(torch.ones(next(sizes)))}, device="cpu", warmup=1, repeats=2)
    assert "captured 3 more graphs" in report.notes[0]
    assert report.notes[0].split(":")[0] in str(report).replace("\n", " ")


def test_a_fresh_cache_is_empty_for_each_first_call() -> None:
    import os

    seen = []
    function = {"cache": lambda: seen.append(os.environ.get("TORCHINDUCTOR_CACHE_DIR"))}
    benchmark(function, device="cpu", warmup=0, repeats=1, fresh_cache=True)
    outside = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    assert seen[0] != outside
    assert set(seen[1:]) == {outside}


def test_keyword_inputs_and_no_gradients() -> None:
    seen = []

    class Model(nn.Module):
        def forward(self, *, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.is_grad_enabled())
            return x

    benchmark(Model(), {"x": torch.ones(1)}, backends=(EAGER,), warmup=0, repeats=1)
    assert set(seen) == {False}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((nn.Linear(2, 2),), {}, TypeError, "needs inputs for a model"),
        (({"a": print}, (1,)), {}, TypeError, "inputs with a model only"),
        (({},), {}, ValueError, "no function to measure"),
        ((nn.Linear(2, 2), (torch.ones(2),)), {"backends": ()}, ValueError, "no backend"),
        ((nn.Linear(2, 2), (torch.ones(2),)), {"backends": ("turbo",)}, ValueError, "'turbo'.*inductor"),
    ],
)
def test_bad_arguments(
    arguments: tuple[object, ...], options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        benchmark(*arguments, **options)  # type: ignore[arg-type]


def test_a_candidate_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'B' computes something else than 'A'.*\[\[3\]\].*\[\[2\]\]"):
        benchmark({"A": lambda: torch.ones(2), "B": lambda: torch.ones(3)}, device="cpu", warmup=0, repeats=1)


def test_peak_memory_counts_what_is_held_at_the_same_time() -> None:
    megabyte = 2**20

    def held_together() -> torch.Tensor:
        first = torch.empty(megabyte, dtype=torch.uint8)
        second = torch.empty(2 * megabyte, dtype=torch.uint8)
        return first[:1] + second[:1]

    def one_after_the_other() -> None:
        torch.empty(megabyte, dtype=torch.uint8)
        torch.empty(2 * megabyte, dtype=torch.uint8)

    together, apart = peak_bytes(held_together, CPU), peak_bytes(one_after_the_other, CPU)
    assert together is not None
    assert 3 * megabyte <= together < 3 * megabyte + 1024
    assert apart == 2 * megabyte


def test_peak_memory_leaves_out_what_was_there_before() -> None:
    there = torch.empty(2**20, dtype=torch.uint8)
    assert peak_bytes(lambda: there.add_(1), CPU) in range(1024)


def test_peak_memory_where_nothing_counts_it() -> None:
    assert peak_bytes(lambda: None, torch.device("mps")) is None


def test_errors_of_nested_and_unusual_outputs() -> None:
    tensor = torch.tensor([1.0, math.inf, math.nan])
    assert largest_error({"a": [tensor]}, {"a": [tensor.clone()]}) == 0.0
    assert largest_error(tensor, torch.tensor([1.0, math.inf, 0.0])) == math.inf
    assert largest_error(torch.tensor([1, 5]), torch.tensor([1, 3])) == 2.0
    assert largest_error(torch.tensor([3 + 4j]), torch.tensor([0j])) == 5.0
    assert largest_error(torch.tensor([True]), torch.tensor([False])) == 1.0
    assert largest_error(torch.ones(0), torch.ones(0)) == 0.0
    assert largest_error("text", "text") is None


def scripted_report() -> BenchmarkReport:
    def candidate(name: str, first: float, seconds: tuple[float, ...], pays: float | None) -> Candidate:
        return Candidate(name, first, Measurement(seconds), 3 * 2**20, 1, 7, 1e-6, pays)

    return BenchmarkReport(
        candidates=(
            candidate("eager", 0.02, (0.010, 0.010, 0.011), None),
            candidate("inductor", 3.0, (0.004, 0.004, 0.005), 500.0),
            candidate("aot_eager", 0.5, (0.010, 0.011, 0.012), math.inf),
            candidate("slow", 0.5, (0.020, 0.020, 0.020), math.inf),
        ),
        device="cpu",
        device_name="test",
        torch_version="2",
        threads=1,
        warmup=1,
        repeats=3,
        fresh_cache=False,
    )


def test_words_for_differences() -> None:
    report = scripted_report()
    assert [against_first(report, candidate) for candidate in report] == [
        "baseline",
        "2.50× faster",
        "unclear",
        "2.00× slower",
    ]


def test_text_names_every_candidate_and_setting() -> None:
    text = str(scripted_report())
    for expected in ("eager", "inductor", "2.50× faster", "500", "never", "10 ms", "3 MiB", "1e-06", "1 thread;"):
        assert expected in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_json_is_strict_and_complete() -> None:
    document = json.loads(scripted_report().to_json(), parse_constant=pytest.fail)
    assert document["device"] == "cpu"
    inductor = next(entry for entry in document["candidates"] if entry["name"] == "inductor")
    assert inductor["median_seconds"] == 0.004
    assert inductor["break_even_calls"] == 500.0
    assert document["candidates"][2]["break_even_calls"] == "never"
    assert document["candidates"][0]["break_even_calls"] is None


def test_the_figure_marks_where_compiling_has_paid() -> None:
    report = scripted_report()
    figure = plot(report)
    axes = figure.axes[0]
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    assert [tuple(float(v) for v in star.get_xydata()[0]) for star in stars] == [(500.0, pytest.approx(5.0))]
    assert [text.get_text() for text in axes.texts] == ["inductor pays\nafter 500 calls"]
    lines = [line for line in axes.lines if line.get_marker() != "*"]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(report.candidates)
    eager, inductor = lines[0].get_xydata(), lines[1].get_xydata()
    assert all((e[1] > i[1]) == (e[0] > 500) for e, i in zip(eager, inductor, strict=True))
    words = alt_text(report)
    assert "inductor: 4 ms a call, first call 3 s, 2.50× faster; pays after 500 calls." in words
    assert "slow: 20 ms a call, first call 500 ms, 2.00× slower; never pays." in words
    assert words.count("unclear") == 1


def test_an_unknown_candidate_is_named() -> None:
    with pytest.raises(KeyError, match="no candidate 'x'; there are eager, inductor"):
        scripted_report()["x"]


def test_units() -> None:
    assert [format_seconds(value) for value in (1500.0, 1.25, 0.0025, 2e-5, 3e-8, 0.0)] == [
        "1500 s",
        "1.25 s",
        "2.5 ms",
        "20 µs",
        "30 ns",
        "0 ns",
    ]
    assert [format_bytes(value) for value in (None, 0, 1000, 1536, 3 * 2**30)] == [
        "–",
        "0 B",
        "1000 B",
        "1.5 KiB",
        "3 GiB",
    ]
    assert [format_calls(value) for value in (None, math.inf, 0.2, 12345.0)] == ["–", "never", "1", "12 345"]


def test_peak_memory_on_a_device_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    counter = iter((100, 750))

    def peak(device: torch.device) -> int:
        events.append("read")
        return next(counter)

    monkeypatch.setattr(devices, "synchronize", lambda device: events.append("synchronize"))
    monkeypatch.setattr(devices, "reset_peak_memory", lambda device: events.append("reset"))
    monkeypatch.setattr(devices, "peak_memory_bytes", peak)
    assert peak_bytes(lambda: events.append("call"), torch.device("cuda")) == 650
    assert events == ["synchronize", "reset", "read", "call", "synchronize", "read"]
