"""Arguments of nodes come back in the same type, bit by bit."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from strategies import LITERALS
from torch import fx, nn

from autograder.exchange.graph_form import GraphFormatError, decode, encode, run
from autograder.exchange.graph_form.encode import EncodedGraph


def graph_returning(value: Any) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(value)
    return fx.GraphModule(nn.Module(), graph)


def carried(value: Any) -> Any:
    """`value` after the journey, as `run` returns it."""
    encoded = encode(graph_returning(value))
    text = json.dumps(encoded.document, allow_nan=False)
    return run(EncodedGraph(json.loads(text), {}), [])


def fingerprint(value: Any) -> Any:
    """Type and bits of a literal: equal only for literals that nothing can tell apart."""
    kind = type(value)
    if kind is float:
        return "float", struct.pack(">d", value)
    if kind is complex:
        return "complex", struct.pack(">dd", value.real, value.imag)
    if kind is tuple:
        return tuple, tuple(fingerprint(element) for element in value)
    if kind is list:
        return list, tuple(fingerprint(element) for element in value)
    if kind is dict:
        return dict, tuple((fingerprint(k), fingerprint(v)) for k, v in value.items())
    if kind in (slice, range):
        return kind, tuple(fingerprint(part) for part in (value.start, value.stop, value.step))
    return kind, value


LOOKALIKES = [
    *(0, 0.0, -0.0, False, 0j, complex(-0.0, 0.0), complex(0.0, -0.0), "", None, (), [], {}),
    *(1, 1.0, True, 1 + 0j, "1", (1,), [1], {1: 1}, {1.0: 1}, {True: 1}, {"1": 1}),
    *(
        math.inf,
        -math.inf,
        math.nan,
        struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0],
        complex(math.nan, -0.0),
    ),
    *(
        2**63 - 1,
        -(2**63),
        5e-324,
        1e308,
        0.1,
        slice(None),
        slice(0, None),
        slice(0.0, 1, None),
        range(3),
        range(0, 3, 2),
    ),
    *(..., torch.float32, torch.float64, torch.device("cpu"), torch.device("cuda:0"), torch.strided),
    *(
        torch.channels_last,
        torch.preserve_format,
        "x; import os",
        "'\"\\\n\u2028\ud800",
        ((), []),
        [()],
        {"a": {"b": ()}},
    ),
]


@pytest.mark.parametrize("value", LOOKALIKES, ids=lambda value: ascii(value))
def test_a_literal_comes_back_in_type_and_bits(value: Any):
    assert fingerprint(carried(value)) == fingerprint(value)


def test_no_two_lookalikes_are_confused():
    prints = [fingerprint(carried(value)) for value in LOOKALIKES]
    assert len({repr(p) for p in prints}) == len(LOOKALIKES)


@given(LITERALS)
@settings(max_examples=150, deadline=None)
def test_any_literal_comes_back_in_type_and_bits(value: Any):
    assert fingerprint(carried(value)) == fingerprint(value)


@pytest.mark.parametrize(
    "written",
    [
        {"float": "3ff0000000000000"}, {"float": "nan"}, {"float": 1.0}, {"complex": [1.0, 2.0]}, {"tuple": 1},
        {"dict": {}}, {"dict": [[1, 2], [True, 3]]}, {"dict": [[{"tuple": []}, 1]]}, {"slice": [1, 2]},
        {"range": [0, 1, 0]}, {"range": [0, 1.0, 1]}, {"size": [1.0]}, {"size": [True]}, {"ellipsis": 0},
        {"dtype": "load"}, {"dtype": "torch.float32"}, {"device": "cpu; import os"}, {"device": "disk"},
        {"layout": "float32"}, {"memory_format": "__class__"}, {"node": "later"}, {"node": 3}, {"eval": "1"}, {},
        {"tuple": [], "list": []}, 2**80, float("inf"), "x" * 2000, "# COUNTER: 0",
    ],
    ids=lambda value: ascii(value)[:40],
)  # fmt: skip
def test_what_is_no_literal_is_refused(written: Any):
    document = encode(graph_returning(None)).document
    document["modules"][0]["nodes"][0]["args"] = [written]
    with pytest.raises(GraphFormatError, match="node 'output'"):
        decode(EncodedGraph(document, {}))
