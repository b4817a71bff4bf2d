"""Random graphs come back; mutated documents are refused or decoded, and reach nothing outside the computation."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from canary import watching
from hypothesis import given, settings
from hypothesis import strategies as st
from round_trips import check, dynamo_graph
from strategies import graph_modules, misuse, mutate
from torch import fx, nn

from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, decode, encode, run


@given(graph_modules())
@settings(max_examples=60, deadline=None)
def test_random_graphs_come_back(graph_module: fx.GraphModule):
    rebuilt = decode(encode(graph_module))
    assert json.dumps(encode(rebuilt).document) == json.dumps(encode(graph_module).document)
    inputs = [torch.randn(4, 4), torch.full((4, 4), -0.0)]
    expected = fx.Interpreter(graph_module).run(*inputs)["value"]
    assert torch.equal(run(rebuilt, inputs)["value"].nan_to_num(7.0), expected.nan_to_num(7.0))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
        self.scale = nn.Parameter(torch.rand(2))

    def forward(self, x: torch.Tensor, flag: bool = True) -> Any:
        y = self.layers(x).mean((2, 3)) * self.scale
        return {"y": y.view(-1, 1)[..., 0], "rest": (y.shape[0], [y.T, 1.5, float("inf")])}


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x.mean((2, 3)),))


def documents() -> list[tuple[EncodedGraph, list[Any]]]:
    """Valid graphs with the inputs that they take: modules, subgraphs, a signature, ATen operators."""
    torch.manual_seed(0)
    x = torch.randn(2, 1, 4, 4)
    traced = fx.symbolic_trace(Model())
    exported = torch.export.export(Model().eval(), (x,)).module()
    branching, inputs = dynamo_graph(Branches(), x)
    return [(encode(traced), [x]), (encode(exported), [x]), (encode(branching), inputs)]


@pytest.fixture(scope="module")
def valid() -> list[tuple[EncodedGraph, list[Any]]]:
    made = documents()
    for encoded, inputs in made:
        check(decode(encoded), inputs)
    return made


@pytest.mark.parametrize("change", [mutate, misuse])
def test_changed_documents_are_refused_or_decoded_and_reach_nothing(
    valid: list[tuple[EncodedGraph, list[Any]]], change: Callable[[Any, random.Random], Any]
):
    outcomes = {"refused": 0, "failed": 0, "ran": 0}

    @given(st.integers(0, 2**32), st.sampled_from(range(len(valid))))
    @settings(max_examples=250, deadline=None, derandomize=True)  # the same calls of kernels in every run
    def each(seed: int, number: int) -> None:
        encoded, inputs = valid[number]
        changed = EncodedGraph(change(encoded.document, random.Random(seed)), encoded.tensors)
        state = process_state()
        outcome = "refused"
        with warnings.catch_warnings(), watching() as events:
            warnings.simplefilter("ignore")
            try:
                graph_module = decode(changed)
            except GraphFormatError as error:
                assert 0 < len(str(error)) < 1000  # noqa: PT017
            else:
                try:
                    run(graph_module, [value.clone() for value in inputs])
                    outcome = "ran"
                except Exception:  # an operation may refuse its inputs in any way
                    outcome = "failed"
        outcomes[outcome] += 1
        assert events == []
        assert process_state() == state

    each()
    # Else this would test one half only.
    assert outcomes["refused"] > 0 or change is misuse
    assert outcomes["failed"] + outcomes["ran"] > 5, outcomes


def process_state() -> tuple[Any, ...]:
    """What a graph could leave behind in the process."""
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch._C._functorch.maybe_current_level(),
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
    )
