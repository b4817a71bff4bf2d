"""Submissions that talk to the grading process themselves: forged, malformed, endless or oversized messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from classroom import RIGHT, SMALL, TASK, Classroom, run, when_called

from autograder.grading.endings import HUNGRY, SLOW
from autograder.grading.grading import STUCK_LIMIT, Grader

NOTHING = """
class GraphRecorder:
    def __init__(self): self.graphs = []
    def __call__(self, graph_module, example_inputs): return graph_module.forward
"""
"""An answer that records nothing."""

SEND = """
import gc, json, os, struct, time
from autograder.exchange.channel import Channel
channel = next(item for item in gc.get_objects() if type(item) is Channel and item._socket.fileno() > 0)
def raw(text, blob=b"", lengths=None):
    channel._socket.sendall(struct.pack(">QQ", *(lengths or (len(text), len(blob)))) + text + blob)
"""

CLAIM = "{'returned_callable': [True], 'recorded': 1, 'kinds': ['GraphModule'], 'in_a_fresh_recorder': 0}"

FORGERIES = {
    "says so on the channel": SEND
    + NOTHING
    + "\nclass GraphRecorder(GraphRecorder):\n    def __init__(self):\n"
    + f"        channel.send({{'values': {CLAIM}, 'graphs': {{}}}})\n        self.graphs = []",
    "says that it passed": SEND
    + NOTHING
    + "\nfor _ in range(9): channel.send({'missing': []}); channel.send({'findings': [], 'passed': True, 'ok': True})",
    "replaces the probe": NOTHING
    + "\nimport autograder.exercises.day1.record_graphs.visible as visible\n"
    + "from autograder.exchange.evidence import Evidence\n"
    + "def forged(case, recorder_class):\n    from autograder.exchange.evidence import Evidence\n"
    + f"    return Evidence({CLAIM})\n"
    + "visible.probe.__code__ = forged.__code__",
    "replaces Evidence": NOTHING
    + "\nimport autograder.exercises.day1.record_graphs.visible as visible\noriginal = visible.Evidence\n"
    + f"visible.Evidence = lambda values, tensors: original({CLAIM}, tensors)",
    "replaces json.dumps": NOTHING
    + "\nimport json\noriginal = json.dumps\n"
    + f"json.dumps = lambda value, **o: original(value | {{'values': {CLAIM}}} if 'values' in value else value, **o)",
    "replaces torch.allclose and torch.equal": NOTHING
    + "\nimport torch\ntorch.allclose = torch.equal = lambda *a, **o: True",
    "records another graph": when_called(
        "import torch\nother = torch.fx.symbolic_trace(torch.nn.ReLU())\nself.graphs.append(other)\n"
        "return graph_module.forward"
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_evidence_does_not_pass(sandboxed: Grader, room: Classroom, name: str) -> None:
    outcome, _ = run(sandboxed, room, FORGERIES[name], seconds=20.0)
    assert outcome.status in ("wrong", "error", "crashed"), outcome.messages


AT_ONCE = {
    "length beyond every limit": ("raw(b'', lengths=(1 << 60, 0))", "crashed"),
    "length and never the rest": ("raw(b'x', lengths=(100, 0)); time.sleep(60)", "time limit"),
    "a byte at a time": (
        "raw(b'', lengths=(999, 0))\nfor _ in range(999): channel._socket.sendall(b'x'); time.sleep(0.05)",
        "time limit",
    ),
    "not JSON": ("raw(b'{nothing')", "crashed"),
    "not UTF-8": ("raw(b'\\xff\\xfe\\xfd')", "crashed"),
    "not an object": ("raw(b'[1, 2]')", "crashed"),
    "nested a hundred thousand deep": ("raw(b'[' * 100_000)", "crashed"),
    "a cell that is not there": ("channel.send({'cell': os.urandom(9).hex()}); os._exit(0)", "crashed"),
    "a cell of no name": ("channel.send({'cell': ['a']})", "crashed"),
    "names of no list": ("channel.send({'missing': 5})", "crashed"),
    "outputs of no list": ("channel.send({'done': 'record_graphs-answer', 'outputs': 5})", "crashed"),
    "outputs that are none": ("channel.send({'done': 'record_graphs-answer', 'outputs': [{'data': 1}]})", "crashed"),
    "outputs without end": (
        "while True: channel.send({'done': 'record_graphs-answer', 'outputs': "
        "[{'output_type': 'stream', 'name': 'stdout', 'text': 'x' * 1_000_000}]})",
        "crashed",
    ),
    "never reads": (
        "channel.send({'done': 'record_graphs-answer', 'outputs': []}); channel.send({'missing': []}); time.sleep(60)",
        "time limit",
    ),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_disturbed_channel_is_one_line(sandboxed: Grader, room: Classroom, name: str) -> None:
    deed, expected = AT_ONCE[name]
    outcome, _ = run(sandboxed, room, f"{SEND}\n{deed}\n{RIGHT}")
    assert outcome.status == expected, outcome.messages
    assert len(outcome.messages) == 1


EVIDENCE = {
    "nested almost too deep": "raw(b'{\"graphs\": {}, \"values\": {\"recorded\": ' + b'[' * 960 + b']' * 960 + b'}}')",
    "no values": "channel.send({'graphs': 5})",
    "numbers that are none": f"channel.send({{'values': {CLAIM} | {{'recorded': float('nan')}}, 'graphs': {{}}}})",
    "lone surrogates": "channel.send({'values': {'recorded': '\\ud800', '\\ud800': 1}, 'graphs': {}})",
    "tensors that are none": f"raw(json.dumps({{'values': {CLAIM}, 'graphs': {{}}}}).encode(), b'nothing')",
    "a raised thing of no kind": "channel.send({'raised': ['x'], 'text': {'y': 'z\\n' * 10_000}})",
    "a graph of nothing": f"channel.send({{'values': {CLAIM}, 'graphs': {{'graph0': {{}}}}}})",
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_malformed_evidence_is_one_line(sandboxed: Grader, room: Classroom, name: str) -> None:
    deed = f"exec({EVIDENCE[name]!r})"
    outcome, _ = run(sandboxed, room, SEND + when_called(deed), seconds=20.0)
    # What is nested too deeply to be read at all counts as a disturbed channel.
    assert outcome.status == "wrong" or (name == "nested almost too deep" and outcome.status == "crashed")
    assert 1 <= len(outcome.messages) <= 3


def test_evidence_that_is_too_large_says_so(sandboxed: Grader, room: Classroom) -> None:
    large = when_called("import torch\nreturn lambda *x: (torch.zeros(7_000_000),)")
    outcome, _ = run(sandboxed, room, large, seconds=20.0)
    assert outcome.status == "wrong"
    assert "too large" in outcome.messages[0]


def test_nothing_is_unpickled(plain: Grader, room: Classroom, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    evil = (
        "import pickle\nclass Evil:\n"
        f"    def __reduce__(self): return (__import__('os').mkdir, ({str(canary)!r},))\n"
        f"raw(json.dumps({{'values': {CLAIM}, 'graphs': {{}}}}).encode(), pickle.dumps(Evil()))"
    )
    outcome, _ = run(plain, room, SEND + when_called(f"exec({evil!r})"), seconds=20.0)
    assert outcome.status == "wrong"
    assert outcome.misconceptions[0] == "unreadable evidence"
    assert not canary.exists()


@pytest.fixture(scope="module")
def impatient() -> Iterator[Grader]:
    """A grader whose judge has little time for a case."""
    with Grader([TASK], "a seed for tests", limits=replace(SMALL, judge_seconds=12.0)) as grader:
        yield grader


def recorded(graph: str) -> str:
    """An answer that records a graph of its own instead of the captured one."""
    body = (
        "import torch\ngraph = torch.fx.Graph()\n"
        "for node in graph_module.graph.find_nodes(op='placeholder'): graph.placeholder(node.name)\n"
        f"{graph}\nself.graphs.append(torch.fx.GraphModule(torch.nn.Module(), graph))\nreturn graph_module.forward"
    )
    return when_called(body)


GRAPHS = {
    "runs for ever": (
        "x = graph.call_function(torch.ones, (9000, 9000))\n"
        "for _ in range(500): x = graph.call_function(torch.matmul, (x, x))\ngraph.output((x,))"
    ),
    "fills memory": "x = graph.call_function(torch.ones, (1 << 38,))\ngraph.output((x,))",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_exhausts_its_process_costs_only_its_own_points(
    impatient: Grader, room: Classroom, name: str
) -> None:
    outcome, _ = run(impatient, room, recorded(GRAPHS[name]), seconds=20.0)
    assert outcome.status == "wrong"
    if name == "runs for ever":
        assert outcome.misconceptions == [SLOW]
        assert "did not finish in the time" in outcome.messages[0]
    else:
        assert outcome.misconceptions == [HUNGRY]
        assert "asked for more memory" in outcome.messages[0]
    assert run(impatient, room, RIGHT, seconds=60.0)[0].status == "passed"


def test_only_so_many_cells_are_left_out(sandboxed: Grader, room: Classroom) -> None:
    cells = [{"id": f"nuisance{i}", "source": "import os\nos._exit(0)"} for i in range(10)]
    stuck: set[str] = set()
    outcome, _ = sandboxed.grade(TASK, cells + room.cells(RIGHT), stuck)
    assert outcome.status == "crashed"
    assert len(stuck) == STUCK_LIMIT
