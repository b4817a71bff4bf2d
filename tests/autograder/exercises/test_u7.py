"""What the gate does not show of unit 7's judges: that they are right by other means, and what forging comes to."""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from random import Random
from typing import Any

import pytest
import torch

from autograder.exchange.evidence import Case, Evidence, EvidenceError
from autograder.exercises.u7.average_gradients import judge as averaging
from autograder.exercises.u7.average_gradients import visible as averaging_visible
from autograder.exercises.u7.before_shipping import judge as shipping
from autograder.exercises.u7.before_shipping import visible as shipping_visible
from autograder.exercises.u7.own_all_reduce import judge as reducing
from autograder.exercises.u7.own_all_reduce import visible as reducing_visible
from autograder.exercises.u7.own_exporter import judge as exporting
from autograder.exercises.u7.own_exporter import visible as exporting_visible
from autograder.exercises.u7.ranks import Ranks, StuckError

SEEDS = range(4)


def cases_of(judge: Any, visible: Any, seed: int = 0) -> list[Case]:
    return [*visible.visible_cases(), *judge.hidden_cases(Random(seed))]


def names(judge: Any, case: Case, evidence: Evidence) -> list[str]:
    return [name for name, _ in judge.judge(case, Evidence.from_message(*evidence.to_message()))]


# Ranks


def test_ranks_take_turns_in_the_same_order_every_time() -> None:
    def run() -> list[str]:
        ranks, log, done = Ranks(3), [], [False] * 3

        def program(rank: int) -> Any:
            def go() -> int:
                log.append(f"{rank} begins")
                done[rank] = True
                ranks.wait(rank, lambda: all(done), "for all")
                log.append(f"{rank} ends")
                return rank

            return go

        assert ranks.run([program(rank) for rank in range(3)]) == [0, 1, 2]
        return log

    # The last one needs not wait.
    assert run() == run() == ["0 begins", "1 begins", "2 begins", "2 ends", "0 ends", "1 ends"]


def test_ranks_that_wait_for_one_another_are_told_and_their_threads_end() -> None:
    before = threading.active_count()
    ranks = Ranks(2)
    with pytest.raises(StuckError, match="rank 0 waits for rank 1; rank 1 waits for rank 0"):
        ranks.run([lambda rank=rank: ranks.wait(rank, lambda: False, f"for rank {1 - rank}") for rank in range(2)])
    assert threading.active_count() == before


def test_what_a_rank_raises_arrives_and_ends_the_others() -> None:
    before = threading.active_count()
    ranks = Ranks(2)

    def fails() -> None:
        raise KeyError("rank 1")

    with pytest.raises(KeyError, match="rank 1"):
        ranks.run([lambda: ranks.wait(0, lambda: False, "for ever"), fails])
    assert threading.active_count() == before


# own_all_reduce


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_have_one_reading(seed: int) -> None:
    for case in cases_of(reducing, reducing_visible, seed):
        numbers = case.parameters["numbers"]
        world, length = len(numbers), len(numbers[0])
        known = reducing.readings(numbers)
        assert len(known) == length * (2**world - 1)
        for element in range(length):
            assert known[sum(one[element] for one in numbers)] == (element, frozenset(range(world)))


def _ring_record(numbers: list[list[int]]) -> list[list[Any]]:
    """What a ring sends, written down step by step over all ranks at once."""
    world, length = len(numbers), len(numbers[0])
    bounds = [length * part // world for part in range(world + 1)]
    held = [list(one) for one in numbers]
    record: list[list[Any]] = []
    for step in range(2 * (world - 1)):
        parts = [slice(*bounds[(rank - step) % world :][:2]) for rank in range(world)]
        sent = [held[rank][parts[rank]] for rank in range(world)]
        record += [["send", rank, (rank + 1) % world, sent[rank]] for rank in range(world)]
        for rank in range(world):
            source = (rank - 1) % world
            record.append(["receive", rank, source, sent[source]])
            old = held[rank][parts[source]]
            new = [a + b for a, b in zip(old, sent[source], strict=True)] if step < world - 1 else sent[source]
            held[rank][parts[source]] = new
    return record


def test_a_ring_is_right_and_at_the_limit_and_every_change_of_its_record_shows() -> None:
    case = reducing_visible.visible_cases()[1]
    numbers = case.parameters["numbers"]
    sums = [sum(column) for column in zip(*numbers, strict=True)]
    record = _ring_record(numbers)

    def told(seen: list[list[Any]], results: list[Any] | None = None) -> list[str]:
        return names(reducing, case, Evidence({"stuck": "", "results": results or [sums] * 4, "seen": seen}))

    assert told(record) == []
    carried = Counter(one[1] for one in record if one[0] == "send" for _ in one[3])
    assert set(carried.values()) == {reducing.most_traffic(4, 8)}
    # The sums are right, and nothing or too little of what was sent explains them.
    assert told([]) == ["not by the network"]
    assert told([[*one[:3], []] for one in record]) == ["not by the network"]
    assert told(record[:-2]) != []
    assert told([*record, ["send", 0, 1, []]]) == ["left over"]
    assert told([["send", 0, 1, [404]], ["receive", 1, 0, [404]], *record]) == ["not by the network"]
    assert told([["send", 0, 1, [7]], ["receive", 1, 0, [7]], *record]) == ["more than its share"]
    assert told([["send", 0, 1, [13]], ["receive", 1, 0, [13]], *record]) == ["no sum on the way"]
    assert told(record, [sums, sums, sums, None]) == ["no list"]
    assert told(record, [sums] * 3) == ["no list"]


def test_the_network_refuses_what_is_no_message() -> None:
    network = reducing_visible.Network(2)
    for question in (["send", 0, 0, [1]], ["send", 0, 2, [1]], ["send", 0, 1, ["1"]], ["send", 0, 1, [0.5]]):
        with pytest.raises(ValueError, match=r"rank|numbers"):
            network.answer(question)
    with pytest.raises(ValueError, match="no such message"):
        network.answer(["receive", 0, 1])
    assert network.record == []


# average_gradients


@pytest.mark.parametrize("seed", SEEDS)
def test_the_wanted_gradient_is_that_of_one_process(seed: int) -> None:
    """A linear loss whose gradients are the drawn ones, differentiated by PyTorch over all rows at once."""
    for case in cases_of(averaging, averaging_visible, seed):
        given = case.parameters
        parameters = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in given["sizes"]]
        losses = []
        for own, rows in zip(given["gradients"], given["rows"], strict=True):
            terms = [
                (torch.tensor(one, dtype=torch.float64) * parameter).sum()
                for one, parameter in zip(own, parameters, strict=True)
                if one is not None
            ]
            losses += [sum(terms, torch.zeros((), dtype=torch.float64))] * rows
        loss = torch.stack(losses).mean()
        if loss.requires_grad:  # else no rank used any parameter
            loss.backward()
        for found, parameter in zip(averaging.wanted(given), parameters, strict=True):
            assert (found is None) == (parameter.grad is None)
            if found is not None:
                torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), parameter.grad)


def test_buckets_hold_each_used_parameter_once_and_are_as_full_as_can_be() -> None:
    for seed in SEEDS:
        for case in cases_of(averaging, averaging_visible, seed):
            given = case.parameters
            found = averaging.buckets(given)
            used = [p for p in range(len(given["sizes"])) if any(one[p] is not None for one in given["gradients"])]
            assert [p for bucket in found for p in bucket] == used[::-1]
            totals = [sum(given["sizes"][p] for p in bucket) for bucket in found]
            assert all(total <= given["most"] or len(bucket) == 1 for total, bucket in zip(totals, found, strict=True))
            assert all(
                total + given["sizes"][after[0]] > given["most"]
                for total, after in zip(totals, found[1:], strict=False)
            )


def test_gradients_that_did_not_travel_are_no_answer() -> None:
    for case in averaging_visible.visible_cases():
        given = case.parameters
        right = averaging.wanted(given)
        world = len(given["rows"])
        lengths = [sum(given["sizes"][p] for p in bucket) for bucket in averaging.buckets(given)]
        values = {"stuck": "", "unlike": "", "results": [right] * world}
        junk = [[[1.0 + place for place in range(length)]] * world for length in lengths]
        assert names(averaging, case, Evidence(values | {"seen": junk})) == ["not by the network"]
        assert names(averaging, case, Evidence(values | {"seen": []})) != []


# own_exporter


@pytest.mark.parametrize("seed", SEEDS)
def test_programs_run_on_all_their_sizes_and_no_size_is_known_beforehand(seed: int) -> None:
    for case in cases_of(exporting, exporting_visible, seed):
        given = case.parameters["program"]
        assert not case.to_message()[0]["parameters"].keys() & {"runs"}
        shapes = set()
        for feeds in exporting_visible.inputs_of(case):
            results = exporting.computed(given, feeds)
            assert len(results) == len(given["outputs"])
            assert all(one.isfinite().all() for one in results)
            shapes.add(tuple(tuple(one.shape) for one in results))
        if case.kept["runs"]:
            assert len(shapes) == len({tuple(sorted(run.items())) for run in case.kept["runs"]})


def test_hidden_cases_are_refused_where_nothing_can_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "missing", lambda: ["onnxruntime"])
    with pytest.raises(RuntimeError, match="needs onnxruntime: install the extra `engines`"):
        exporting.hidden_cases(Random(0))
    monkeypatch.setattr(exporting_visible, "missing", lambda: ["onnx"])
    with pytest.raises(RuntimeError, match="needs onnx, which is not installed"):
        exporting_visible.probe(exporting_visible.visible_cases()[0], lambda *_: b"")


def test_a_file_of_another_program_or_of_nothing_is_told() -> None:
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    case = exporting_visible.visible_cases()[0]
    names_in, out = ["x"], helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    nodes = [helper.make_node("Slice", [*names_in, "from", "to", "axis"], ["y"])]
    ends = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in (("from", 0), ("to", 3), ("axis", 1))
    ]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [out], ends), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ).SerializeToString()
    for content, told in ((made, "other values"), (b"no model at all", "does not load")):
        file = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        evidence = Evidence({"stage": "written", "text": ""}, {"file": file})
        more = exporting.follow_up(case, evidence)
        assert more is not None
        assert names(exporting, case, exporting_visible.fresh(more)) == [told]


@pytest.mark.parametrize("new", [{"x": "other"}, {"y": 3}, {"y": "two words"}, {"y": "x"}, {"y": "a", "w": "a"}, ["y"]])
def test_names_that_the_case_does_not_ask_for_are_no_evidence(new: Any) -> None:
    pytest.importorskip("onnxruntime")
    [case] = [one for one in exporting.hidden_cases(Random(0)) if one.parameters["rename"]]
    file = torch.zeros(1, dtype=torch.uint8)
    for names_now in ({}, {"y": "constant_0", "w": "constant_1"}):
        evidence = Evidence({"stage": "written", "text": "", "names": names_now}, {"file": file})
        more = exporting.follow_up(case, evidence)
        assert more is not None
        assert (f"run0/{names_now.get('y', 'y')}") in more.tensors
    with pytest.raises(EvidenceError, match="names"):
        exporting.follow_up(case, Evidence({"stage": "written", "text": "", "names": new}, {"file": file}))


# before_shipping


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_are_those_that_graph_and_signature_show(seed: int) -> None:
    """Read off what PyTorch's own classes say; the judge reads the rows instead."""
    for case in cases_of(shipping, shipping_visible, seed):
        target = case.parameters["target"]
        module, signature = shipping_visible.build(case.parameters["program"])
        operators = {
            node.target
            for part in module.modules()
            if isinstance(part, torch.fx.GraphModule)
            for node in part.graph.nodes
            if isinstance(node.target, torch._ops.OpOverload)
        }
        wanted = shipping.losses(case.parameters["program"], target)
        assert {name for kind, name in wanted if kind == "operator"} == {
            str(one) for one in operators if str(one) not in target["operators"]
        }
        written = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
        assert {name for kind, name in wanted if kind == "state"} == (set() if target["state"] else written)
        assert {name for kind, name in wanted if kind == "input"} == set(signature.user_inputs_to_mutate.values())


def test_the_signature_is_the_one_that_an_export_has() -> None:
    """A model that counts: what `run_decompositions` leaves, and what the visible case says."""

    class Counts(torch.nn.Module):
        calls: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return torch.relu(x)

    model = torch.nn.Module()
    model.meter = Counts()
    model.forward = lambda x: model.meter(x)  # type: ignore[method-assign]
    program = torch.export.export(model, (torch.ones(2),)).run_decompositions()
    _, ours = shipping_visible.build(shipping_visible.visible_cases()[0].parameters["program"])
    assert list(program.graph_signature.buffers_to_mutate.values()) == list(ours.buffers_to_mutate.values())
    assert [one.arg.name for one in program.graph_signature.input_specs] == [one.arg.name for one in ours.input_specs]
    assert [one.kind for one in program.graph_signature.output_specs] == [one.kind for one in ours.output_specs]


def test_every_kind_of_loss_is_drawn() -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        for case in shipping.hidden_cases(Random(seed)):
            found = shipping.losses(case.parameters["program"], case.parameters["target"])
            kinds.update(kind for kind, _ in found)
    assert set(kinds) == {"state", "input", "argument", "operator", "training"}


@pytest.mark.parametrize("name", ["own_all_reduce", "average_gradients", "own_exporter", "before_shipping"])
def test_hidden_cases_come_from_the_seed_and_travel(name: str) -> None:
    judge = importlib.import_module(f"autograder.exercises.u7.{name}.judge")
    first, again, other = ([one.to_message() for one in judge.hidden_cases(Random(seed))] for seed in (5, 5, 6))
    assert first == again
    assert first != other
    assert len({header["name"] for header, _ in first}) == len(first)
