"""Attacks on the process that runs learners' graphs: as a graph, and as code that took the process over."""

from __future__ import annotations

import copy
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from classroom import need_bubblewrap
from torch import fx, nn

from autograder.exchange.channel import ChannelClosedError, Message
from autograder.exchange.graph_form import GraphEndedError, GraphFormatError, ask, decode, encode, graphs_run_by, run
from autograder.exchange.graph_form.origin import ForbiddenExecutionError
from autograder.exchange.graph_form.parcels import Unsent
from autograder.exchange.graph_form.questions import observed
from autograder.grading import graph_server
from autograder.grading.endings import GRAPH_CRASHED, HUNGRY, LARGE, SLOW
from autograder.grading.runner import WALL_FACTOR, SandboxedRunner
from autograder.grading.sandbox import Limits
from autograder.traps import oracle

BUDGET = 6.0
LIMITS = Limits(graph_seconds=BUDGET, graph_memory_bytes=1 << 30)
X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module", params=["bubblewrap", "plain"])
def started(request: pytest.FixtureRequest) -> Iterator[SandboxedRunner]:
    sandboxed = request.param == "bubblewrap"
    if sandboxed:
        need_bubblewrap()
    with SandboxedRunner(LIMITS, sandboxed) as runner:
        yield runner


@pytest.fixture
def runner(started: SandboxedRunner) -> Iterator[SandboxedRunner]:
    started.new_submission()
    with graphs_run_by(started):
        yield started


def theirs(build: Callable[[fx.Graph, fx.Node], Any], root: dict[str, Any] | None = None) -> fx.GraphModule:
    """A learner's graph of one input."""
    graph = fx.Graph()
    graph.output(build(graph, graph.placeholder("x")))
    return decode(encode(fx.GraphModule(root or {}, graph)))


def endless(graph: fx.Graph, x: fx.Node) -> fx.Node:
    value = graph.call_function(torch.zeros, (3000, 3000))
    for _ in range(3000):
        value = graph.call_function(torch.matmul, (value, value))
    return value


def plain(graph: fx.Graph, x: fx.Node) -> fx.Node:
    return graph.call_function(torch.relu, (x,))


def ending(graph_module: fx.GraphModule) -> GraphEndedError:
    with pytest.raises(GraphEndedError) as caught:
        run(graph_module, [X])
    return caught.value


def test_what_a_graph_gives_comes_back(runner: SandboxedRunner) -> None:
    def build(graph: fx.Graph, x: fx.Node) -> Any:
        return {
            "relu": graph.call_function(torch.relu, (x,)),
            "rest": [3, 2.5, "text", torch.float16, (None, slice(1, 2))],
        }

    found = run(theirs(build), [X])
    assert torch.equal(found.pop("relu"), X)
    assert found == {"rest": [3, 2.5, "text", torch.float16, (None, slice(1, 2))]}


def test_memory_that_results_share_is_shared_here_too(runner: SandboxedRunner) -> None:
    found = run(theirs(lambda graph, x: (x, graph.call_method("view", (x, 3, 2)))), [X])
    assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()
    assert found[0].untyped_storage().data_ptr() != X.untyped_storage().data_ptr()


def test_an_exception_of_the_graph_is_raised_with_its_kind(runner: SandboxedRunner) -> None:
    with pytest.raises(RuntimeError, match="shape"):
        run(theirs(lambda graph, x: graph.call_function(torch.reshape, (x, (5,)))), [X])
    with pytest.raises(ZeroDivisionError):
        run(theirs(lambda graph, x: graph.call_function(divmod, (1, 0))), [X])


def test_a_graph_writes_to_nothing_in_the_process_that_asks(runner: SandboxedRunner) -> None:
    """A constant graph overwrote the expected weights in the judge's memory, and got the points."""
    weight = torch.ones(3)

    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        graph.call_method("fill_", (graph.get_attr("weight"), 7.0))
        return graph.call_method("fill_", (x, 7.0))

    graph_module, given = theirs(build, {"weight": weight}), X.clone()
    assert torch.equal(run(graph_module, [given]), torch.full((2, 3), 7.0))
    assert torch.equal(weight, torch.ones(3))
    assert torch.equal(graph_module.weight, torch.ones(3))
    assert torch.equal(given, X)
    # Seen from outside it is a write all the same.
    assert torch.equal(ask(observed, graph_module, [given])["inputs"][0], torch.full((2, 3), 7.0))


def test_what_a_graph_writes_lasts_for_its_submission_only(runner: SandboxedRunner) -> None:
    counting = theirs(
        lambda graph, x: graph.call_method("add_", (graph.get_attr("count"), 1)), {"count": torch.zeros(1)}
    )
    assert [float(run(counting, [X])) for _ in range(3)] == [1.0, 2.0, 3.0]
    runner.new_submission()
    assert float(run(counting, [X])) == 1.0


OUT_OF_BOUNDS = {
    "segment_reduce": lambda graph, x: graph.call_function(
        torch.segment_reduce, (x, "sum"), {"lengths": x, "unsafe": True}
    ),
    "max_pool2d_with_indices_backward": lambda graph, x: graph.call_function(
        torch.ops.aten.max_pool2d_with_indices_backward.default, (x, x, [2, 2], [2, 2], [0, 0], [1, 1], False, x)
    ),
    "lu_unpack": lambda graph, x: graph.call_function(torch.lu_unpack, (x, x)),
    "as_strided": lambda graph, x: graph.call_method("as_strided", (x, [2, 7], [2**62, 2])),
    "as_strided of nodes": lambda graph, x: graph.call_function(
        torch.as_strided, (x, [2, graph.call_method("size", (x, 0))], [1, 1])
    ),
    "a dtype that is none": lambda graph, x: graph.call_function(
        torch.ops.aten._to_copy.default, (x,), {"dtype": 2**31 - 1}
    ),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_operators_that_reach_past_their_tensors_are_refused(name: str) -> None:
    with pytest.raises(GraphFormatError, match=r"allow-list|is a dtype|whole numbers below"):
        theirs(OUT_OF_BOUNDS[name])


def test_code_that_crashes_the_process_is_told_as_a_crash_and_the_next_goes_on(runner: SandboxedRunner) -> None:
    with pytest.raises(GraphEndedError, match="crashed the process that ran it: it reached memory") as caught:
        runner.ask(ctypes.string_at, [8, 8])
    assert caught.value.misconception == GRAPH_CRASHED
    with pytest.raises(GraphEndedError, match="crashed the process") as caught:
        runner.ask(os._exit, [0])
    assert caught.value.misconception == GRAPH_CRASHED
    assert torch.equal(run(theirs(plain), [X]), X)


@pytest.mark.parametrize(
    ("build", "misconception"),
    [
        (lambda graph, x: graph.call_function(torch.zeros, (1 << 38,)), HUNGRY),
        (lambda graph, x: [graph.call_function(torch.empty, (1 << 26,)) for _ in range(30)], HUNGRY),
        (lambda graph, x: graph.call_function(torch.zeros, (17 << 20,)), LARGE),
        (lambda graph, x: graph.call_method("expand", (graph.call_function(torch.zeros, (1,)), 1 << 38)), LARGE),
    ],
)
def test_memory(runner: SandboxedRunner, build: Any, misconception: str) -> None:
    assert ending(theirs(build)).misconception == misconception
    assert torch.equal(run(theirs(plain), [X]), X)


def test_an_endless_graph_costs_its_task_and_leaves_time_for_the_others(runner: SandboxedRunner) -> None:
    started = time.monotonic()
    graph_module = theirs(endless)
    for case in range(128):
        runner.new_case("slow")
        assert ending(graph_module).misconception == SLOW, case
    assert time.monotonic() - started < WALL_FACTOR * BUDGET + 20.0
    runner.new_case("another task")
    assert torch.equal(run(theirs(plain), [X]), X)


def test_a_process_that_only_waits_is_ended_by_the_clock(started: SandboxedRunner) -> None:
    started.new_submission()
    with pytest.raises(GraphEndedError) as caught:
        started.ask(time.sleep, [1000])
    assert caught.value.misconception == SLOW


HOLDS_LOCK = "__import__('tqdm').tqdm.get_lock().acquire()"
SHARED_MEMORY = "[line for line in open('/proc/self/maps') if 's' in line.split()[1] and 'w' in line.split()[1]]"


def test_a_runner_killed_while_it_holds_a_lock_stops_no_later_one(runner: SandboxedRunner) -> None:
    """`fx.Interpreter` takes the lock of tqdm, which all forks shared: one killed there stopped all after it."""
    run(theirs(plain), [X])
    runner.ask(eval, [HOLDS_LOCK])
    runner.new_submission()
    assert torch.equal(run(theirs(plain), [X]), X)


@pytest.mark.skipif(sys.platform != "linux", reason="the map of a process is a file of Linux")
def test_a_runner_shares_no_memory_with_the_next(runner: SandboxedRunner) -> None:
    run(theirs(plain), [X])
    assert runner.ask(eval, [SHARED_MEMORY]) == []


@pytest.mark.parametrize(
    "answer",
    [
        Message({"id": -1, "value": {"tensors": [], "value": 1}, "cpu": 0.0}, b""),
        Message({"value": {"tensors": [], "value": 1}}, b""),
        Message({"id": None}, b""),
    ],
)
def test_an_answer_to_no_question_is_not_taken_for_one(
    runner: SandboxedRunner, monkeypatch: pytest.MonkeyPatch, answer: Message
) -> None:
    run(theirs(plain), [X])
    channel = runner._channel
    assert channel is not None
    monkeypatch.setattr(channel, "receive", lambda timeout: answer)
    assert ending(theirs(plain)).misconception == GRAPH_CRASHED
    assert runner._channel is not channel
    assert torch.equal(run(theirs(plain), [X]), X)


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"tensors": 3, "value": 1},
        {"tensors": [], "value": {"tensor": 0}},
        {"tensors": [], "value": {"node": "x"}},
        {"tensors": [], "value": {"dict": [[[], 1]]}},
        {"tensors": [{"storage": "s", "shape": [1 << 40]}], "value": 1},
    ],
)
def test_an_answer_of_nonsense_is_no_answer(
    runner: SandboxedRunner, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    run(theirs(plain), [X])
    assert runner._channel is not None
    real = runner._channel.receive

    def forged(timeout: float) -> Message:
        return Message(real(timeout).header | {"value": value}, b"")

    monkeypatch.setattr(runner._channel, "receive", forged)
    assert ending(theirs(plain)).misconception in (GRAPH_CRASHED, LARGE)


def test_who_takes_the_process_over_finds_neither_judge_nor_parent(runner: SandboxedRunner) -> None:
    if not runner._sandboxed:
        pytest.skip("a plain process sees what its user sees")
    assert runner.ask(os.listdir, ["/view/autograder/grading"]) in (
        ["__init__.py", "graph_server.py"],
        ["graph_server.py", "__init__.py"],
    )
    everything = [path for path in runner.view.rglob("*") if path.is_file()]
    assert {path.name for path in everything} & {
        "judge.py",
        "judges.py",
        "judging.py",
        "reference.py",
        "visible.py",
    } == set()
    assert runner.ask(os.path.exists, [__file__]) is False
    with pytest.raises((RuntimeError, ValueError), match=r"Read-only|Permission"):
        runner.ask(os.mkdir, ["/view/left"])
    if runner.isolated:
        # Alone in a namespace of process ids, but for its first process, which ends it.
        assert (runner.ask(os.getpid, []), runner.ask(os.getppid, [])) == (2, 1)
    assert runner.ask(os.getpid, []) != os.getpid()


def test_values_that_are_no_plain_data_equal_nothing(runner: SandboxedRunner) -> None:
    found = run(theirs(lambda graph, x: graph.call_function(torch.zeros, (2,), {"device": "meta"})), [X])
    assert isinstance(found, Unsent)
    assert found != X


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


WAYS: dict[str, Callable[[fx.GraphModule], object]] = {
    "called": lambda graph_module: graph_module(X),
    "interpreted": lambda graph_module: fx.Interpreter(graph_module).run(X),
    "copied and called": lambda graph_module: copy.deepcopy(graph_module)(X),
    "wrapped anew": lambda graph_module: fx.GraphModule(graph_module, graph_module.graph)(X),
    "its graph copied": lambda graph_module: fx.Interpreter(
        fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    ).run(X),
    "transformed": lambda graph_module: fx.Transformer(graph_module).transform()(X),
}


@pytest.mark.parametrize("way", WAYS)
def test_executing_a_learners_graph_where_it_is_judged_raises(runner: SandboxedRunner, way: str) -> None:
    ours = fx.symbolic_trace(Layer())
    with pytest.raises(ForbiddenExecutionError):
        WAYS[way](decode(encode(ours)))
    WAYS[way](ours)
    WAYS[way](decode(encode(ours), ours=True))


def test_a_conditional_which_torch_compiles_runs(runner: SandboxedRunner) -> None:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    program = torch.export.export(Branch(), (X,)).module()
    assert torch.allclose(run(decode(encode(program)), [X]), torch.sin(X))


def test_a_server_is_told_which_modules_have_been_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that imports it itself pays seconds for that out of the learner's time, once a submission."""
    with SandboxedRunner(LIMITS, sandboxed=False) as asking:
        control = asking._controlled()
        asked: list[list[str]] = []
        send = control.send

        def seen(header: dict[str, Any], *rest: Any, **options: Any) -> None:
            if "run" in header:
                asked.append(header["asked"])
            send(header, *rest, **options)

        monkeypatch.setattr(control, "send", seen)
        with graphs_run_by(asking):
            ask(observed, theirs(plain), [X])
            asking.new_submission()
            ask(oracle.persistent, theirs(plain))
    assert asked == [[observed.__module__], sorted([observed.__module__, oracle.__name__])]


def test_the_server_imports_what_it_is_told_before_it_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Orders:
        """A judge that gives one order and goes."""

        def __init__(self, *orders: dict[str, Any]) -> None:
            self._orders = [Message(order, b"") for order in orders]

        def send(self, header: dict[str, Any]) -> None:
            assert header == {"ready": True}

        def receive(self) -> Message:
            if not self._orders:
                raise ChannelClosedError
            return self._orders.pop(0)

    there: list[bool] = []

    class Forked:
        def __init__(self, *_: object) -> None:
            there.append("colorsys" in sys.modules)

        def end(self) -> int:
            return 0

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(graph_server, "_Forked", Forked)
    graph_server.serve(Orders({"run": "", "asked": ["colorsys"], "memory_bytes": 0, "seconds": 1.0}))  # type: ignore[arg-type]
    assert there == [True]
