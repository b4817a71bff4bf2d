"""Cases and evidence as they travel: whole, and refused when they are not what they should be."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence, EvidenceError, pack_tensors, unpack_tensors
from autograder.exchange.graph_form import decode, encode


def graph_module() -> torch.fx.GraphModule:
    torch.manual_seed(0)
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)))


def travel(evidence: Evidence) -> Evidence:
    header, blob = evidence.to_message()
    return Evidence.from_message(json.loads(json.dumps(header)), blob)


def test_a_case_makes_the_round_trip() -> None:
    case = Case("name", {"sizes": [2, 3], "flag": True}, {"x": torch.arange(6.0).reshape(2, 3).t()})
    header, blob = case.to_message()
    again = Case.from_message(json.loads(json.dumps(header)), blob)
    assert (again.name, again.parameters) == (case.name, case.parameters)
    assert torch.equal(again.tensors["x"], case.tensors["x"])


def test_evidence_makes_the_round_trip() -> None:
    module = graph_module()
    sent = Evidence(
        {"count": 3}, {"x": torch.ones(2, 3), "a/b": torch.zeros(0)}, {"g": encode(module), "h": encode(module)}
    )
    again = travel(sent)
    assert again.values == {"count": 3}
    assert set(again.tensors) == {"x", "a/b"}
    x = torch.randn(4, 3)
    for name in ("g", "h"):
        assert torch.equal(decode(again.graphs[name])(x), module(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64])
def test_tensors_keep_dtype_and_shape(dtype: torch.dtype) -> None:
    tensor = torch.ones(2, 3, requires_grad=True).to(dtype)
    scalar = torch.tensor(2).to(dtype)
    again = unpack_tensors(pack_tensors({"t": tensor, "s": scalar, "view": tensor[:, 1]}))
    assert again["t"].dtype == dtype
    assert again["s"].shape == ()
    assert torch.equal(again["view"], tensor[:, 1])
    assert not again["t"].requires_grad


def test_no_tensors_are_no_bytes() -> None:
    assert pack_tensors({}) == b""
    assert unpack_tensors(b"") == {}


@pytest.mark.parametrize(
    "header",
    [{}, {"values": {}}, {"values": [], "graphs": {}}, {"values": {}, "graphs": 5}, {"values": {}, "graphs": {"g": 5}}],
)
def test_headers_of_another_form_are_refused(header: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError):
        Evidence.from_message(header, b"")


@pytest.mark.parametrize("blob", [b"nothing", b"\xff" * 100, pack_tensors({"t": torch.ones(9)})[:-4], b"\x80\x04N."])
def test_bytes_that_are_no_tensors_are_refused(blob: bytes) -> None:
    with pytest.raises(EvidenceError, match="cannot be read"):
        Evidence.from_message({"values": {}, "graphs": {}}, blob)


@pytest.mark.parametrize("key", ["stray", "other/x", "graph/absent/x"])
def test_tensors_that_belong_to_nothing_are_refused(key: str) -> None:
    with pytest.raises(EvidenceError, match="belongs to nothing"):
        Evidence.from_message({"values": {}, "graphs": {}}, pack_tensors({key: torch.ones(1)}))
