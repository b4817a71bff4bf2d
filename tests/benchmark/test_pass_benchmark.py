"""`fxopt bench passes`: its graphs hold what is said, its peers do what they are timed for. No time is asserted."""

from __future__ import annotations

import gc
import json
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from typer.testing import CliRunner

from fxopt_core.benchmark import Measurement
from fxopt_core.passes import pass_names
from fxopt_workbench.bench.passes import (
    COLLECTOR_ON,
    COLLECTOR_PAUSED,
    PEERS,
    Peer,
    Row,
    butterflies,
    compare,
    dense_chain,
    document,
    example_inputs,
    fresh_copy,
    growths,
    synthetic_aten_graph,
)
from fxopt_workbench.bench.passes.peers import pattern, replacement, two_anchor_pattern, two_anchor_replacement
from fxopt_workbench.bench.passes.report import DEMANDS, GROWTH_LIMIT, Growth, demand_on, meets
from fxopt_workbench.bench.timed_passes import timed_passes
from fxopt_workbench.cli import app

aten = torch.ops.aten
NODES = 1000


def peer(name: str) -> Peer:
    return next(peer for peers in PEERS.values() for peer in peers if peer.name == name)


def is_check(node: fx.Node) -> bool:
    """Whether a node computes nothing: constant folding has one look at the dtype of what it folded."""
    return node.target is aten._assert_tensor_metadata.default


def targets(graph: fx.Graph) -> Counter[object]:
    operators = [node for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    return Counter(node.target for node in operators if not is_check(node))


def result_of(graph_module: fx.GraphModule) -> torch.Tensor:
    graph_module.recompile()
    return graph_module(*example_inputs(graph_module))


def numbered(graph: fx.Graph) -> int:
    """How many different values are computed; written apart from the pass that finds them."""
    numbers: dict[object, int] = {}
    number_of: dict[fx.Node, int] = {}
    nodes = [node for node in graph.nodes if not is_check(node)]
    for node in nodes:
        if node.op == "call_function":
            key: object = (node.target, tuple(number_of[source] for source in node.args))  # type: ignore[index]
        else:
            key = node.name
        number_of[node] = numbers.setdefault(key, len(numbers))
    calls = [node for node in nodes if node.op == "call_function"]
    return len(calls) - len({number_of[node] for node in calls})


def constant(graph: fx.Graph) -> set[fx.Node]:
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and found.issuperset(node.all_input_nodes)):
            found.add(node)
    return found


def needed(graph: fx.Graph) -> set[fx.Node]:
    found = {graph.output_node()}
    for node in reversed(graph.nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


@pytest.mark.parametrize("nodes", [300, 1000, 1234])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_graph_has_exactly_what_was_asked_for(nodes: int, seed: int) -> None:
    graph_module = synthetic_aten_graph(
        nodes, seed, duplicate_fraction=0.05, constant_fraction=0.2, dead_fraction=0.15, match_fraction=0.02
    )
    graph = graph_module.graph
    assert len(graph.nodes) == nodes
    graph.lint()
    assert numbered(graph) == int(nodes * 0.05)
    assert len(constant(graph)) == int(nodes * 0.2) // 10 * 10
    live = needed(graph)
    assert sum(node.op == "call_function" and node not in live for node in graph.nodes) == int(nodes * 0.15)
    matches = [
        node
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor)
        if node.args[1].target is aten.sigmoid.default and node.args[1].args[0] is node.args[0]
    ]
    assert len(matches) == int(nodes * 0.02) == targets(graph)[aten.sigmoid.default]


def test_a_graph_runs_and_stays_finite() -> None:
    for graph_module in (synthetic_aten_graph(5000), dense_chain(100), butterflies(1000)):
        assert result_of(graph_module).isfinite().all()
        assert not graph_module.state_dict()


def test_every_node_has_an_example_value_with_storage_of_its_own() -> None:
    nodes = [node for node in synthetic_aten_graph(300).graph.nodes if node.op != "output"]
    values = [node.meta["val"] for node in nodes]
    assert all(isinstance(value, FakeTensor) and value.device.type == "cpu" for value in values)
    assert len({value.untyped_storage()._cdata for value in values}) == len(values)


def test_the_same_seed_gives_the_same_graph() -> None:
    assert str(synthetic_aten_graph(300, 3).graph) == str(synthetic_aten_graph(300, 3).graph)
    assert str(synthetic_aten_graph(300, 3).graph) != str(synthetic_aten_graph(300, 4).graph)


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="20 nodes are too few"):
        synthetic_aten_graph(20, dead_fraction=0.9)


@pytest.mark.parametrize("nodes", [100, 101, 102, 103])
def test_graphs_for_patterns_are_dense(nodes: int) -> None:
    chain = dense_chain(nodes).graph
    assert len(chain.nodes) == nodes
    assert targets(chain)[aten.sigmoid.default] == targets(chain)[aten.mul.Tensor] == (nodes - 2) // 2
    wings = butterflies(nodes).graph
    assert len(wings.nodes) == nodes
    sums = wings.find_nodes(op="call_function", target=aten.add.Tensor)
    differences = wings.find_nodes(op="call_function", target=aten.sub.Tensor)
    assert [node.args for node in sums] == [node.args for node in differences]
    assert len(sums) == (nodes - 3) // 4


def test_patterns_and_replacements_compute_the_same() -> None:
    x, y = torch.randn(64), torch.randn(64)
    torch.testing.assert_close(pattern(x), replacement(x))
    for before, after in zip(two_anchor_pattern(x, y), two_anchor_replacement(x, y), strict=True):
        assert torch.equal(before, after)


def test_a_copy_computes_the_same_and_leaves_the_original_alone() -> None:
    graph_module = synthetic_aten_graph(NODES)
    before = str(graph_module.graph)
    copied = fresh_copy(graph_module)
    assert torch.equal(result_of(copied), result_of(graph_module))
    copied.graph.eliminate_dead_code()
    assert str(graph_module.graph) == before
    assert next(iter(copied.graph.nodes)).meta["val"] is next(iter(graph_module.graph.nodes)).meta["val"]
    assert copied.graph.owning_module is copied


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("fx_graph_cse", 100),
        ("CSEPass", 100),
        # Nine of the ten nodes of each chain are calls; dead nodes go too.
        ("split_const_subgraphs", 90 + 100),
        ("eliminate_dead_code", 100),
        ("replace_pattern", 10),
        ("Inductor's PatternMatcherPass", 10),
        ("GraphModule.recompile", 0),
    ],
)
def test_a_peer_does_what_it_is_timed_for(name: str, removed: int) -> None:
    original = synthetic_aten_graph(NODES)
    copied = fresh_copy(original)
    graph = peer(name).run(copied)
    assert targets(original.graph).total() - targets(graph).total() == removed
    owner = graph.owning_module if graph.owning_module is not None else copied
    torch.testing.assert_close(result_of(fx.GraphModule(owner, graph)), result_of(original), rtol=1e-4, atol=1e-5)
    if "attern" in name:
        assert targets(graph)[aten.silu.default] == 10
        assert not targets(graph)[aten.sigmoid.default]
    if name == "split_const_subgraphs":
        left = {node.target for node in constant(graph) if node.op == "call_function"}
        assert left == {operator.getitem}


def test_a_peer_that_recompiles_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    recompile = fx.GraphModule.recompile
    sizes: list[int] = []

    def counted(self: fx.GraphModule) -> object:
        sizes.append(len(self.graph.nodes))
        return recompile(self)

    for name in (peer.name for peers in PEERS.values() for peer in peers):
        copied = fresh_copy(synthetic_aten_graph(NODES))
        with monkeypatch.context() as patched:
            patched.setattr(fx.GraphModule, "recompile", counted)
            sizes.clear()
            peer(name).run(copied)
        whole_graph = any(size > NODES / 2 for size in sizes)
        assert whole_graph == (peer(name).recompiles or name == "GraphModule.recompile"), name


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("common_subexpressions", 100),
        ("dead_code", 100),
        ("constant_folding", 90 + 100),
        ("one_pattern_rewrite", 10),
        ("dense_pattern_rewrite", 499),
        ("two_anchor_rewrite", 0),
    ],
)
def test_our_side_does_what_it_is_timed_for(name: str, removed: int) -> None:
    timed = timed_passes()[name]
    original = timed.graph(NODES)
    copied = fresh_copy(original)
    graph = timed.work(copied)
    assert graph is copied.graph
    graph.lint()
    assert targets(original.graph).total() - targets(graph).total() == removed
    if name == "two_anchor_rewrite":
        assert all("alpha" in node.kwargs for node in graph.find_nodes(op="call_function", target=aten.add.Tensor))
    expected = result_of(original)
    if "pattern" in name:
        torch.testing.assert_close(result_of(copied), expected, rtol=1e-4, atol=1e-5)
    else:
        assert torch.equal(result_of(copied), expected)


def test_every_registered_pass_can_be_timed() -> None:
    assert set(pass_names()) < set(timed_passes())
    assert set(PEERS) < set(timed_passes())


def test_the_preset_leaves_nothing_that_was_planted() -> None:
    original = synthetic_aten_graph(NODES)
    copied = fresh_copy(original)
    graph = timed_passes()["inference_preset"].work(copied)
    graph.lint()
    assert numbered(graph) == 0
    assert needed(graph) >= {node for node in graph.nodes if node.op == "call_function" and not is_check(node)}
    assert not any(node.op == "call_function" and not is_check(node) for node in constant(graph))
    torch.testing.assert_close(result_of(copied), result_of(original), rtol=1e-4, atol=1e-5)


def seconds(*values: float) -> Measurement:
    return Measurement(values)


ROW = Row("dead_code", 10_000, COLLECTOR_ON, seconds(1.0, 2.0, 3.0), 7, "theirs", seconds(4.0), 7)


def test_runs_are_interleaved_on_copies_in_both_states_of_the_collector() -> None:
    graph_modules = [synthetic_aten_graph(300), synthetic_aten_graph(400)]
    before = {len(graph_module.graph.nodes): str(graph_module.graph) for graph_module in graph_modules}
    events: list[tuple[str, int, bool]] = []

    def work(name: str, removed: int) -> Callable[[fx.GraphModule], fx.Graph]:
        def run(graph_module: fx.GraphModule) -> fx.Graph:
            graph = graph_module.graph
            assert str(graph) == before[len(graph.nodes)]
            events.append((name, len(graph.nodes), gc.isenabled()))
            for _ in range(removed):
                graph.erase_node(next(n for n in reversed(graph.nodes) if n.op == "call_function" and not n.users))
            return graph

        return run

    peers = [Peer("one", work("one", 1)), Peer("two", work("two", 2), recompiles=True)]
    rows = compare("mine", graph_modules, work("mine", 3), peers, repeats=2)
    assert (
        events
        == [(name, size, on) for size in (300, 400) for on in (True, False) for name in ("mine", "one", "two")] * 2
    )
    assert gc.isenabled()
    assert [(row.nodes, row.collector, row.peer, row.removed, row.peer_removed) for row in rows] == [
        (size, collector, *who)
        for size in (300, 400)
        for collector in (COLLECTOR_ON, COLLECTOR_PAUSED)
        for who in (("one", 3, 1), ("two", 3, 2))
    ]
    for row in rows:
        assert row.ours.runs == 2
        assert (row.recompiled is None) == (row.peer == "one")
    assert {len(graph_module.graph.nodes): str(graph_module.graph) for graph_module in graph_modules} == before


def test_what_only_asserts_a_dtype_does_not_count_as_a_call() -> None:
    def folded(graph_module: fx.GraphModule) -> fx.Graph:
        graph = timed_passes()["constant_folding"].work(graph_module)
        assert any(map(is_check, graph.nodes))
        return graph

    peer = PEERS["constant_folding"][0]
    for row in compare("constant_folding", [synthetic_aten_graph(300)], folded, [peer], repeats=1):
        assert row.removed == row.peer_removed > 0


def test_a_pass_without_a_peer_has_rows_of_its_own() -> None:
    rows = compare("mine", [synthetic_aten_graph(300)], lambda module: module.graph, (), repeats=1)
    assert [(row.collector, row.peer, row.ratio, row.removed) for row in rows] == [
        (COLLECTOR_ON, None, None, 0),
        (COLLECTOR_PAUSED, None, None, 0),
    ]


def test_generating_code_is_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("fxopt_workbench.bench.passes.comparing.time.process_time", lambda: next(clock))
    peers = [Peer("one", lambda module: module.graph), Peer("two", lambda module: module.graph, recompiles=True)]
    with_it, without = compare("mine", [synthetic_aten_graph(300)], lambda module: module.graph, peers, repeats=1)[
        1::-1
    ]
    # The clock is read before the work, after it, and after generating code.
    assert (with_it.ours.seconds, without.ours.seconds) == ((1,), (1,))
    assert with_it.recompiled is not None
    assert with_it.recompiled.seconds == (2,)
    assert without.recompiled is None
    assert (with_it.ratio, with_it.recompiled_ratio, without.recompiled_ratio) == (1.0, 0.5, None)


def test_the_collector_is_as_it_was_even_if_a_pass_raises() -> None:
    def broken(graph_module: fx.GraphModule) -> fx.Graph:
        if not gc.isenabled():
            raise RuntimeError("broken while it is paused")
        return graph_module.graph

    with pytest.raises(RuntimeError, match="broken while it is paused"):
        compare("x", [synthetic_aten_graph(300)], broken, (), repeats=1)
    assert gc.isenabled()


def test_rows_as_json() -> None:
    assert json.loads(json.dumps(document([ROW])))["rows"] == [
        {
            "pass": "dead_code",
            "nodes": 10_000,
            "seconds": 2.0,
            "peer": "theirs",
            "peer_seconds": 4.0,
            "ratio": 2.0,
            "collector": "on",
            "spread": 1.0,
            "peer_spread": 0.0,
            "seconds_with_recompile": None,
            "removed": 7,
            "peer_removed": 7,
            "repeats": 3,
            "met": True,
        }
    ]


def test_doing_nothing_meets_no_demand() -> None:
    assert meets(ROW) is True
    assert meets(replace(ROW, removed=6)) is False
    assert meets(replace(ROW, theirs=seconds(1.9))) is False
    assert meets(replace(ROW, name="redundant_layout")) is None


@pytest.mark.parametrize(
    ("name", "peer_name", "nodes", "ratio"),
    [
        ("common_subexpressions", "fx_graph_cse", 50_000, 5),
        ("common_subexpressions", "CSEPass", 50_000, 5),
        ("common_subexpressions", "CSEPass", 10_000, None),
        ("constant_folding", "split_const_subgraphs", 50_000, 10),
        ("dead_code", "eliminate_dead_code", 1_000, 1),
        ("one_pattern_rewrite", "replace_pattern", 50_000, 50),
        ("one_pattern_rewrite", "Inductor's PatternMatcherPass", 50_000, 1),
        ("dense_pattern_rewrite", "Inductor's PatternMatcherPass", 50_000, 1.5),
        ("inference_preset", "GraphModule.recompile", 10_000, 0.5),
    ],
)
def test_demands_are_those_of_the_issue(name: str, peer_name: str, nodes: int, ratio: float | None) -> None:
    demand = demand_on(replace(ROW, name=name, peer=peer_name, nodes=nodes))
    assert (None if demand is None else demand.ratio) == ratio


def test_every_demand_names_peers_that_there_are() -> None:
    for demand in DEMANDS:
        assert demand.peer in (None, *(peer.name for peer in PEERS[demand.name]))


def test_growth_is_measured_from_size_to_size_in_each_state_of_the_collector() -> None:
    rows = [
        replace(ROW, nodes=nodes, collector=collector, ours=seconds(factor * nodes / 10_000))
        for collector, factor in ((COLLECTOR_ON, 1.0), (COLLECTOR_PAUSED, 0.5))
        for nodes in (1_000, 10_000, 50_000)
    ]
    rows[2] = replace(rows[2], ours=seconds(7.0))
    found = growths(rows)
    assert found == [
        Growth("dead_code", COLLECTOR_ON, (10_000, 50_000), 7.0),
        Growth("dead_code", COLLECTOR_PAUSED, (10_000, 50_000), 5.0),
    ]
    assert [growth.meets for growth in found] == [False, True]
    assert GROWTH_LIMIT == 6
    assert growths(rows[:1]) == []
    assert growths(rows[:2])[0].meets is None


def test_the_command_prints_tables_or_one_object() -> None:
    arguments = ["bench", "passes", "--nodes", "400,300", "--only", "dead_code", "--repeats", "2"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [(row["nodes"], row["collector"]) for row in rows] == [
        (300, "on"),
        (300, "paused"),
        (400, "on"),
        (400, "paused"),
    ]
    for row in rows:
        assert (row["pass"], row["peer"], row["repeats"]) == ("dead_code", "eliminate_dead_code", 2)
        assert row["removed"] == row["peer_removed"] == row["nodes"] // 10
        assert row["ratio"] == row["peer_seconds"] / row["seconds"] > 0
    done = CliRunner().invoke(app, arguments)
    assert "eliminate_dead_code" in done.output
    assert "300 to 400" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "dead_cod"], "there is no pass 'dead_cod' to time. Did you mean 'dead_code'?"),
        (["--nodes", "many"], "--nodes is 'many'; expected whole numbers"),
        (["--nodes", "-5", "--only", "dead_code"], "too few"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["bench", "passes", *arguments])
    assert done.exit_code == 2
    assert message in done.output
