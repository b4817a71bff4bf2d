"""What the gate does not show of unit 3's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Deviation
from autograder.exercises.u3.composite_or_explicit import judge as composite
from autograder.exercises.u3.composite_or_explicit import visible as composite_visible
from autograder.exercises.u3.own_dispatcher import judge as dispatching
from autograder.exercises.u3.own_dispatcher import visible as dispatching_visible
from autograder.exercises.u3.own_dispatcher.model import Model, run_steps
from autograder.exercises.u3.predict_kernels import judge as predicting
from autograder.exercises.u3.predict_kernels import visible as predicting_visible
from autograder.exercises.u3.recording_mode import judge as recording
from autograder.exercises.u3.recording_mode import visible as recording_visible
from autograder.exercises.u3.toy_backend import judge as backend
from autograder.exercises.u3.toy_backend import visible as backend_visible


def programs(seeds: int) -> list[Case]:
    drawn = [case for seed in range(seeds) for case in dispatching.hidden_cases(Random(seed))]
    return [*dispatching_visible.visible_cases(), *drawn]


def test_a_few_hundred_calls_go_the_same_way_in_pytorch_and_in_the_model_that_names_mistakes() -> None:
    kernels: Counter[str] = Counter()
    missing = 0
    for case in programs(4):
        steps = case.parameters["steps"]
        for right, run in zip(dispatching.right_runs(steps), run_steps(steps, Model()), strict=True):
            assert (right["log"], right["keys"]) == (run["log"], run["keys"])
            assert right.get("missing") == run.get("missing")
            kernels.update(name.partition("/")[2] for name in right["log"])
            missing += "missing" in right
    assert sum(kernels.values()) > 500
    assert missing > 20
    assert set(kernels) >= {"CPU", "CUDA", "Autograd", "CompositeImplicitAutograd", "ADInplaceOrView", "BackendSelect"}
    # The thread excludes it from the start, and what is excluded stays excluded, whoever includes it.
    assert "AutocastCPU" not in kernels


def test_a_fallback_fills_what_is_empty_from_the_moment_it_is_registered() -> None:
    (case,) = (case for case in dispatching.hidden_cases(Random(0)) if case.name == "a fallback later")
    before, after = dispatching.right_runs(case.parameters["steps"])
    assert before == {"log": [], "keys": [], "missing": ["f", "AutogradCPU"]}
    assert after == {"log": ["f/CPU"], "keys": [["CPU", "Dense"]], "value": 0}


def test_each_flaw_of_the_model_shows_in_some_case_and_is_named() -> None:
    cases = programs(1)
    for name, flaw in ((name, flaw) for name, ways in Model.FLAWS.items() for flaw in ways):
        shown = False
        for case in cases:
            keys = [Model(flaw).runtime_key(frozenset(keys)) for keys in case.parameters["keysets"]]
            runs = run_steps(case.parameters["steps"], Model(flaw))
            evidence = Evidence({"keys": keys, "runs": [_handed_over(run) for run in runs], "torch_calls": []})
            for found in dispatching.judge(case, evidence):
                assert not isinstance(found, Deviation) or name in found.fits
                shown = shown or isinstance(found, Deviation) or (isinstance(found, tuple) and found[0] == name)
        assert shown, flaw


def _handed_over(run: dict[str, Any]) -> dict[str, Any]:
    if "missing" in run:
        return {**run, "missing": " ".join(run["missing"])}
    return run if {"failed", "endless"} & set(run) else {**run, "value": 0}


def test_keys_are_named_as_pytorch_names_them() -> None:
    assert dispatching.bits(["Sparse", "CPU", "CUDA"]).highestPriorityTypeId().name == "SparseCUDA"
    assert dispatching.bits(["CPU"]).highestPriorityTypeId().name == "Undefined"
    assert dispatching.bits(["Dense", "CPU", "Autograd"]).highestPriorityTypeId().name == "AutogradCPU"


def test_a_tensor_walks_as_the_headers_say() -> None:
    """Written down from the sources, independently of what the judge runs."""
    tensor, call = predicting_visible.tensor, predicting_visible.call
    for one, wanted in (
        (call(tensor()), "AutogradCPU ADInplaceOrView CPU"),
        (call(tensor(), blocks=("inference_mode",)), "ADInplaceOrView CPU"),
        (call(tensor(made="inside")), "ADInplaceOrView CPU"),
        (call(tensor(made="inside"), blocks=("inference_mode",)), "CPU"),
        (
            call(tensor(layout="sparse"), tensor("meta"), blocks=("autocast",)),
            "AutocastCPU AutogradMeta ADInplaceOrView SparseMeta",
        ),
        (call(tensor(batched=True), blocks=("vmap", "inference_mode")), "FuncTorchBatched ADInplaceOrView CPU"),
    ):
        assert predicting.by_pytorch(one) == wanted.split()


def test_random_calls_reach_every_kernel_and_leave_it_out() -> None:
    random = Random(0)
    seen: Counter[str] = Counter()
    for _ in range(300):
        seen.update(predicting.by_pytorch(predicting.random_call(random)))
    assert set(seen) == {
        *("FuncTorchBatched", "AutocastCPU", "AutogradCPU", "AutogradMeta", "ADInplaceOrView"),
        *("SparseMeta", "SparseCPU", "Meta", "CPU"),
    }
    assert all(5 < seen[name] < 295 for name in seen)


def test_a_mode_records_what_a_plain_mode_sees() -> None:
    class Names(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.records: list[Any] = []

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.records.append(operator.name().replace("::", "."))
            return operator(*args, **(kwargs or {}))

    for case in [*recording_visible.visible_cases(), *recording.hidden_cases(Random(3))]:
        for given in case.parameters["programs"]:
            mine = recording_visible.run(given, recording.Recorder, lambda one: one.records)
            names = recording_visible.run(given, Names, lambda one: one.records)
            plain = [[name.removesuffix(".default") for name, _ in records] for records in mine["records"]]
            assert plain == names["records"]
            assert mine["values"] == names["values"]
            assert any(keys for records in mine["records"] for _, keys in records)


def test_a_layer_on_the_device_is_what_whole_numbers_give() -> None:
    """The forward pass and the gradient of a weight, worked out in plain Python."""
    given = backend_visible.network(3, 2, seed=5, rows=1, spread=300)
    generator = torch.Generator().manual_seed(5)
    weight, bias, x, target = (
        torch.randint(-300, 301, shape, generator=generator).tolist() for shape in ((2, 3), (2,), (1, 3), (1, 2))
    )

    def limited(ticks: float) -> int:
        return max(-32768, min(32767, round(ticks)))

    def output() -> list[int]:
        return [limited(bias[i] + sum(weight[i][j] * x[0][j] for j in range(3)) / 256) for i in range(2)]

    first = output()
    errors = [limited(first[i] - target[0][i]) for i in range(2)]
    halves = [limited(256 * error / 256) for error in errors]
    gradients = [limited(2 * half) for half in halves]
    slopes = [[limited(gradients[i] * x[0][j] / 256) for j in range(3)] for i in range(2)]
    seen = backend_visible.run(given, backend.FIXED)
    assert seen["outputs"][0] == [[1, 2], first]
    assert seen["gradients"][0][0] == [[2, 3], [one for row in slopes for one in row]]
    weight = [[limited(weight[i][j] - 0.25 * slopes[i][j]) for j in range(3)] for i in range(2)]
    bias = [limited(bias[i] - 0.25 * gradients[i]) for i in range(2)]
    assert seen["outputs"][1] == [[1, 2], output()]


def test_each_flaw_of_the_device_changes_some_hidden_network_whatever_is_drawn() -> None:
    for seed in range(3):
        networks = [case.parameters["network"] for case in backend.hidden_cases(Random(seed))]
        right = [backend_visible.run(given, backend.FIXED) for given in networks]
        for name, flawed in backend.FLAWED:
            found = [backend_visible.run(given, flawed) for given in networks]
            assert any(one["outputs"] != other["outputs"] for one, other in zip(found, right, strict=True)), name


@pytest.mark.parametrize("name", composite_visible.OPERATORS)
def test_the_stages_see_what_the_table_says(name: str) -> None:
    """Looked up in PyTorch, with operators registered as the task asks."""
    with torch.library._scoped_library("fxopt_u3_stages", "DEF") as library:
        library.define(f"{name}(Tensor x, float slope) -> Tensor")
        kind = "Implicit" if name == "open" else "Explicit"
        library.impl(name, lambda x, slope: x * torch.sigmoid(slope * x), f"Composite{kind}Autograd")
        operator = getattr(torch.ops.fxopt_u3_stages, name)
        graphs = composite_visible._graphs(operator, composite_visible.inputs([2], 1), "fxopt_u3_stages")
        with recording.Recorder() as mode:
            operator(torch.ones(2), 1.0)
    seen = {"dynamo": graphs["dynamo"], "aot": graphs["aot"], "mode": [one for one, _ in mode.records]}
    for stage, names in seen.items():
        whole = any(one.removeprefix("fxopt_u3_stages.").startswith(name) for one in names)
        assert composite.SEES[f"{name} {stage}"] == ("operator" if whole else "parts")


def test_hidden_inputs_tell_wrong_derivatives_from_right_ones() -> None:
    """A constant in place of the saved sigmoid: the first derivative agrees, the second does not."""

    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
            s = torch.sigmoid(slope * x)
            ctx.save_for_backward(x, s)
            ctx.slope = slope
            return x * s

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            x, s = ctx.saved_tensors
            return gradients[0] * s * (1 + ctx.slope * x * (1 - s)), None

    told = 0
    for case in composite.hidden_cases(Random(2)):
        slope = case.parameters["slope"]
        right = composite_visible.derivatives(lambda x, slope=slope: x * torch.sigmoid(slope * x), case.parameters)
        saved = composite_visible.derivatives(lambda x, slope=slope: Saves.apply(x, slope), case.parameters)
        torch.testing.assert_close(saved["gradient"], right["gradient"])
        told += not torch.allclose(saved["second"], right["second"])
    assert told >= 3


def test_evidence_of_another_length_does_not_pass() -> None:
    case = dispatching_visible.visible_cases()[1]
    with pytest.raises(ValueError, match="zip"):
        list(dispatching.judge(case, Evidence({"keys": [], "runs": [], "torch_calls": []})))
    case = predicting_visible.visible_cases()[0]
    with pytest.raises(ValueError, match="zip"):
        list(predicting.judge(case, Evidence({"answers": [], "torch_calls": []})))
    case = recording_visible.visible_cases()[0]
    with pytest.raises(ValueError, match="zip"):
        list(recording.judge(case, Evidence({"runs": []})))
