"""What the gate does not show of unit 1's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from torchgen.model import FunctionSchema, NativeFunction
from torchgen.utils import context

from autograder.exchange.evidence import Case
from autograder.exercises.u1.find_your_way import judge as finding
from autograder.exercises.u1.find_your_way import tables
from autograder.exercises.u1.layers_of_a_call import judge as layers
from autograder.exercises.u1.layers_of_a_call import visible as layers_visible
from autograder.exercises.u1.static_graph import cases as graphs
from autograder.exercises.u1.static_graph import judge as graph_judge
from autograder.exercises.u1.static_graph import oracle, programs, rules
from autograder.exercises.u1.static_graph import visible as graph_visible
from autograder.exercises.u1.tape_engine import judge as tape
from autograder.exercises.u1.tape_engine import visible as tape_visible
from autograder.exercises.u1.tape_engine.model import FLAWS as TAPE_FLAWS
from autograder.exercises.u1.tape_engine.model import by_model
from autograder.exercises.u1.traces import trace


def tape_programs() -> list[dict[str, Any]]:
    cases = [*tape_visible.visible_cases(), *tape.hidden_cases(Random(0))]
    return [given for case in cases for given in case.parameters["programs"]]


def test_the_tape_that_names_mistakes_computes_what_pytorch_does() -> None:
    gradients = 0
    for given in tape_programs():
        found, right = by_model(given), tape.by_pytorch(given)["gradients"]
        assert found is not None
        assert all(tape.close(one, other) for one, other in zip(found, right, strict=True)), given
        gradients += sum(one is not None for one in right)
    assert gradients > 60


def test_each_flaw_of_the_tape_shows_in_a_fixed_case_and_is_named() -> None:
    fixed = [given for given in tape_programs() if len(given["steps"]) < 8]
    for flaw in TAPE_FLAWS:
        named = Counter[str]()
        for given in fixed:
            made, right = by_model(given, flaw), tape.by_pytorch(given)
            if made is not None:
                difference = tape._difference(given, {**right, "gradients": made}, right)
                named.update([difference[0]] if difference else [])
        assert named[flaw], (flaw, named)


def test_a_gradient_worked_out_by_hand() -> None:
    x, y = 2.0, 5.0
    given = tape_visible.program(
        [tape_visible.leaf(x), tape_visible.leaf(y)], ["mul", 0, 1], ["add", 2, 0], ["mul", 3, 2], ["backward", 4]
    )
    # (xy + x) · xy
    wanted = [2 * x * y * y + 2 * x * y, 2 * x * x * y + x * x]
    found = tape.by_pytorch(given)["gradients"][:2]
    assert [one["numbers"] for one in found] == [[pytest.approx(number)] for number in wanted]


def test_random_tapes_are_tame_and_use_every_operation() -> None:
    random = Random(1)
    kinds: Counter[str] = Counter()
    for _ in range(40):
        given = tape.random_program(random)
        kinds.update(step[0] for step in given["steps"])
        assert "done" in tape.by_pytorch(given)["asked"]
    assert {*tape_visible.OPERATIONS, "chosen", "doubled", "backward"} <= set(kinds)


def test_a_graph_has_the_shapes_and_values_of_pytorch() -> None:
    """Every shape that is inferred is the one of what runs; what is refused, PyTorch refuses as well."""
    shapes: list[rules.Shape] = [(), (1,), (3,), (2, 3), (3, 2), (2, 1), (2, 2, 3)]
    fits = refused = 0
    for operator in rules.OPERATORS:
        count = rules.INPUTS.get(operator, 1)
        for first in shapes:
            for second in shapes:
                inputs = [first, second][:count]
                given = second if operator in rules.SHAPED else None
                tensors = [torch.rand(shape, dtype=torch.float64) for shape in inputs]
                try:
                    wanted = rules.infer(operator, inputs, given)
                except ValueError:
                    refused += 1
                    if operator not in ("matmul", "transpose"):  # PyTorch also knows products of vectors and batches.
                        with pytest.raises(RuntimeError):
                            rules.value(operator, tensors, given or ())
                    continue
                fits += 1
                if operator != "input":
                    assert rules.value(operator, tensors, wanted).shape == wanted
    assert fits > 100
    assert refused > 100


def test_plans_are_followed_as_a_machine_would_do() -> None:
    nodes = [["input", [], [2]], ["neg", [0], [2]], ["tanh", [1], [2]], ["relu", [1], [2]], ["add", [2, 2], [2]]]
    right = [["run", 1], ["run", 2], ["free", 1], ["run", 4], ["free", 2]]
    assert programs.followed(nodes, [4], right) is None
    assert programs.followed(nodes, [0], []) is None
    wrong = {
        "computed twice": [["run", 1], ["run", 1]],
        "dead code": [["run", 1], ["run", 3]],
        "runs an input": [["run", 0]],
        "read before it is there": [["run", 2]],
        "freed too early": [["run", 1], ["free", 1], ["run", 2]],
        "frees what is not there": [["free", 2]],
        "output freed": [*right, ["free", 4]],
        "output missing": right[:3],
        "never freed": right[:-1],
        "freed late": [["run", 1], ["run", 2], ["run", 4], ["free", 1], ["free", 2]],
    }
    for name, program in wrong.items():
        found = programs.followed(nodes, [4], program)
        assert found is not None
        assert found[0] == name


def test_random_graphs_reach_second_derivatives_and_every_operator() -> None:
    random, kinds, second = Random(2), Counter[str](), 0
    for _ in range(40):
        steps = graphs.random_steps(random)
        kinds.update(step[1] for step in steps if step[0] == "call")
        second += sum(step[0] == "gradients" for step in steps) > 1
        assert None not in oracle.by_pytorch(steps, 5)
    assert {"add", "mul", "neg", "matmul", "transpose", "relu", "tanh", "sum_to", "expand", "ones"} <= set(kinds)
    assert 5 < second < 35


def test_a_graph_that_is_no_graph_is_named_and_ends_nothing() -> None:
    case = Case("odd", {"steps": [graph_visible.placeholder(2), ["program", [0]]]})

    class Odd:
        def __init__(self) -> None:
            self.nodes: list[Any] = []

        def call(self, operator: str, *inputs: int, shape: Any = None) -> int:
            self.nodes.append((operator, [5], shape))
            return 0

    evidence = graph_visible.probe(case, Odd, None, lambda graph, outputs: ["run"])
    assert [name for name, _ in graph_judge.judge(case, evidence)] == ["wrong node"]


@pytest.mark.parametrize("shape", [[1 << 20, 1 << 20], [-1]])
def test_a_node_of_a_hostile_shape_is_not_run(shape: list[int]) -> None:
    case = Case("large", {"steps": [graph_visible.placeholder(2), ["gradients", 0, [0]]]})

    class Large:
        def __init__(self) -> None:
            self.nodes: list[Any] = []

        def call(self, operator: str, *inputs: int, shape: Any = None) -> int:
            self.nodes.append((operator, inputs, shape))
            return len(self.nodes) - 1

    def gradients(graph: Any, loss: int, wanted: list[int]) -> list[int]:
        return [graph.call("ones", shape=tuple(shape))]

    evidence = graph_visible.probe(case, Large, gradients, None)
    assert [name for name, _ in graph_judge.judge(case, evidence)] == ["node does not fit"]


def test_every_entry_of_the_file_agrees_with_the_dispatcher() -> None:
    """The rules that name a kernel are right for all operators of this release: the dispatcher gives their reason."""
    reasons = {
        "CPU": "kernel",
        "CompositeExplicitAutograd": "default backend kernel",
        "CompositeExplicitAutogradNonFunctional": "default backend kernel",
        "CompositeImplicitAutograd": "math kernel",
        None: None,
    }
    seen: Counter[str | None] = Counter()
    for operator in tables.entries():
        key, function = tables.kernel(operator)
        file, why = tables.served(operator)
        assert why == reasons[key], operator
        assert (function is None) == (file is None) == (key is None)
        seen[key] += 1
    assert len(seen) == 5
    assert all(count > 20 for count in seen.values())


def test_functions_are_those_that_torchgen_calls() -> None:
    """For entries with a table of their own, and for those without one, which torchgen names by itself."""
    tried = 0
    for name, entry in list(tables.entries().items())[::9]:
        plain = {key: value for key, value in entry.items() if key != "line"}
        if "structured_delegate" in plain or "ufunc_inner_loop" in plain:
            continue
        with context(lambda name=name: f"in {name}"):
            _, kernels = NativeFunction.from_yaml(dict(plain), _Nowhere(), {"core", *_tags()})
        by_key = {str(key): data[next(iter(data))].kernel for key, data in kernels.items()}
        key, function = tables.kernel(name)
        if key is None:
            assert not {"CPU", *tables.COMPOSITE} & set(by_key), name
            continue
        assert by_key[key].removesuffix("_symint") == str(function).removesuffix("_symint"), name
        assert FunctionSchema.parse(entry["func"]).is_out_fn() == tables.writes_out(name)
        tried += 1
    assert tried > 100


class _Nowhere:
    """Where an entry stands, which torchgen wants for its messages."""

    file, line = "", 0


def _tags() -> set[str]:
    return {
        tag
        for entry in tables.entries().values()
        for tag in ([entry["tags"]] if isinstance(entry.get("tags"), str) else entry.get("tags", []))
    }


def test_each_flaw_of_the_tables_shows_in_a_fixed_case() -> None:
    fixed = [case for case in finding.hidden_cases(Random(0)) if not case.name.startswith("random")]
    operators = [
        operator for case in fixed for operator in case.parameters["operators"] if operator in tables.entries()
    ]
    operators += ["relu", "add.Tensor", "mul.Tensor", "native_layer_norm"]
    for flaw in tables.FLAWS:
        assert any(tables.facts_of(operator, flaw) != tables.facts_of(operator) for operator in operators), flaw


def test_a_small_trace_taken_apart_by_hand() -> None:
    def event(number: int, kind: str, start: int, end: int, **more: Any) -> dict[str, Any]:
        plain = {"id": number, "name": str(number), "kind": kind, "thread": 1, "start": start, "end": end}
        return plain | {"sequence": None, "forward thread": None} | more

    events = [
        event(7, "operator", 60, 90, sequence=3, **{"forward thread": 1}),
        event(1, "python", 0, 50),
        event(3, "operator", 10, 20, sequence=3),
        event(2, "operator", 10, 40, sequence=3),
        event(4, "annotation", 20, 38),
        event(5, "operator", 20, 30),
    ]
    assert layers.rows(events) == [
        {"operator": 2, "python": 1, "work": [3, 5], "own": 10, "derivative of": None},
        {"operator": 7, "python": None, "work": [7], "own": 30, "derivative of": 3},
    ]


def test_what_begins_at_once_is_told_apart() -> None:
    plain = [
        (row["operator"], row["python"], row["work"], row["own"], row["derivative of"])
        for row in layers.rows(layers.at_once())
    ]
    assert plain == [
        (1004, 0, [1007, 1009], 90 - 28 - 19, None),
        (1000, None, [1000], 20, None),
        (1021, 0, [1021], 2, None),
        (1022, 0, [1022], 10, None),
        (1011, None, [1012], 10, 1007),
        (1013, None, [1013], 10, None),
        (1023, None, [1023], 10, 1022),
        (1017, None, [1017], 10, None),
        (1014, None, [1014], 40, None),
        (1018, None, [1018], 20, None),
        (1019, None, [1020], 15, None),
    ]


def test_each_flaw_in_reading_a_trace_shows_in_a_fixed_case() -> None:
    cases = [*layers_visible.visible_cases(), *layers.hidden_cases(Random(0))]
    fixed = [case.parameters["events"] for case in cases if not case.name.startswith("random")]
    for flaw in layers.FLAWS:
        assert any(layers.rows(events, flaw) != layers.rows(events) for events in fixed), flaw


def test_traces_are_the_same_each_time_and_no_two_events_are_at_the_same_place() -> None:
    for seed in range(5):
        programs_of_threads = [["linear", "cubed", "backward"], ["softmax", "add"]]
        events = trace(programs_of_threads, seed, engine_thread=seed > 2, ranges=seed % 2 == 1)
        assert events == trace(programs_of_threads, seed, engine_thread=seed > 2, ranges=seed % 2 == 1)
        places = [(one["thread"], one["start"], one["end"]) for one in events]
        assert len(set(places)) == len(places)
        assert len({one["id"] for one in events}) == len(events)
        assert all(one["start"] < one["end"] for one in events)
        for one in events:
            assert not one["name"].startswith("/")
            assert " at 0x" not in one["name"]
