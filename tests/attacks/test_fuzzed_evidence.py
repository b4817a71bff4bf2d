"""Bytes and JSON of any kind in the place of evidence: judged, or refused by name, and no exception of another kind.

Graphs among evidence are fuzzed in `tests/graph_form/test_fuzz.py`. `FXOPT_TORTURE` tries more.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.course.judges import visible_cases
from autograder.course.task import Task
from autograder.course.tasks import all_tasks
from autograder.exchange.channel import Channel, ChannelClosedError, ChannelTimeoutError, MalformedMessageError
from autograder.exchange.evidence import Evidence, EvidenceError, pack_tensors, unpack_tensors
from autograder.exchange.verdict import CaseVerdict
from autograder.grading.judging import _verdict

TRIED = 40 * (10 if os.environ.get("FXOPT_TORTURE") else 1)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)

JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

BLOBS = st.binary(max_size=200) | st.sampled_from(
    [
        pack_tensors({"value/x": torch.ones(2)}),
        pack_tensors({"graph/g/x": torch.ones(2), "other": torch.zeros(0)}),
        b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ",
        b"\xff" * 8 + b"{}",
    ]
)


@given(st.binary(max_size=80), st.integers(0, 2**64 - 1), st.integers(0, 200), st.booleans())
@settings(max_examples=5 * TRIED, deadline=None)
def test_any_bytes_on_a_channel_are_a_message_or_refused(text: bytes, length: int, blob: int, honest: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack(">QQ", len(text) if honest else length, 0 if honest else blob) + text)
        theirs.shutdown(socket.SHUT_WR)
        try:
            message = Channel(ours).receive(5.0)
        except (MalformedMessageError, ChannelClosedError):
            return
        except ChannelTimeoutError:
            pytest.fail("nothing more could come, and it waited")
        assert isinstance(message.header, dict)


@given(JSON, JSON, BLOBS)
@settings(max_examples=5 * TRIED, deadline=None)
def test_any_header_and_any_bytes_are_evidence_or_refused(values: Any, graphs: Any, blob: bytes) -> None:
    try:
        evidence = Evidence.from_message({"values": values, "graphs": graphs}, blob)
    except EvidenceError:
        return
    assert isinstance(evidence.values, dict)
    assert all(isinstance(tensor, torch.Tensor) for tensor in evidence.tensors.values())


@given(BLOBS)
@settings(max_examples=3 * TRIED, deadline=None)
def test_any_bytes_are_tensors_or_refused(blob: bytes) -> None:
    try:
        found = unpack_tensors(blob)
    except EvidenceError:
        return
    assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())


QUICK = [task for task in all_tasks() if task.unit == "day0" or task.evidence == "instrument"]
"""Tasks whose judges need no model, so that many verdicts are to be had in a second."""


def keys_of(task: Task) -> list[str]:
    """Words of the judge's source, among which are the names of what it reads."""
    source = (task.folder / "judge.py").read_text() + (task.folder / "visible.py").read_text()
    return sorted({word for word in source.split('"')[1::2] if word.isidentifier()})


@pytest.mark.parametrize("task", QUICK, ids=lambda task: task.name)
def test_a_judge_has_a_verdict_on_everything(task: Task) -> None:
    cases = visible_cases(task)
    messages = [case.to_message() for case in cases]
    passed = []

    @given(st.dictionaries(st.sampled_from(keys_of(task)), JSON, max_size=6), st.integers(0, len(cases) - 1), BLOBS)
    @settings(max_examples=TRIED, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def each(values: dict[str, Any], number: int, blob: bytes) -> None:
        header, own = messages[number]
        sent = {"values": json.loads(json.dumps(values)), "graphs": {}}
        request = {"case": header, "case_bytes": len(own), "evidence": sent, "hidden": False}
        verdict = _verdict(task, request, own + blob)
        assert isinstance(verdict, CaseVerdict)
        assert all(finding.message and "\n" not in finding.message for finding in verdict.findings)
        passed.append(verdict.passed)

    each()
    assert passed
    assert not any(passed)
