"""The channel: whole messages, in time, of bounded size, and nothing that is executed."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.exchange.channel import (
    HEADER_LIMIT,
    MESSAGE_LIMIT,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    OversizeMessageError,
    Rendezvous,
    connect,
)
from autograder.exchange.scratch import scratch_folder


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    """Our end, and the bare socket of the other side."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def message(text: bytes, blob: bytes = b"") -> bytes:
    return struct.pack(">QQ", len(text), len(blob)) + text + blob


@pytest.mark.parametrize("blob", [b"", b"\x00\xff" * 2_000_000])
def test_what_is_sent_arrives(pair: tuple[Channel, socket.socket], blob: bytes) -> None:
    ours, theirs = pair
    header = {"words": "ä\n\x00", "number": 1.5, "list": [None, True]}
    sender = threading.Thread(target=Channel(theirs).send, args=(header, blob))
    sender.start()
    received = ours.receive(10.0)
    sender.join()
    assert received == (header, blob)


def test_messages_keep_their_bounds(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(message(b'{"a": 1}', b"x") + message(b"{}"))
    assert ours.receive(1.0) == ({"a": 1}, b"x")
    assert ours.ready(0.0)
    assert ours.receive(1.0) == ({}, b"")
    assert not ours.ready(0.0)


@pytest.mark.parametrize(
    "text", [b"", b"nothing", b"\xff\xfe", b"[1]", b"5", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_message_is_malformed(pair: tuple[Channel, socket.socket], text: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(message(text))
    with pytest.raises(MalformedMessageError):
        ours.receive(1.0)


@pytest.mark.parametrize("lengths", [(HEADER_LIMIT + 1, 0), (2, MESSAGE_LIMIT + 1), (1 << 63, 0)])
def test_lengths_are_believed_up_to_the_limits_only(
    pair: tuple[Channel, socket.socket], lengths: tuple[int, int]
) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack(">QQ", *lengths))
    with pytest.raises(OversizeMessageError):
        ours.receive(1.0)


def test_too_large_a_message_is_not_begun(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    for header, blob in (({"text": "x" * HEADER_LIMIT}, b""), ({}, b"x" * (MESSAGE_LIMIT + 1))):
        with pytest.raises(OversizeMessageError):
            ours.send(header, blob)
    ours.send({"still": "works"})
    assert Channel(theirs).receive(1.0).header == {"still": "works"}


def test_what_is_not_json_is_not_begun(pair: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(TypeError):
        pair[0].send({"object": object()})
    assert not Channel(pair[1]).ready(0.0)


@pytest.mark.parametrize("begun", [b"", b"\x00" * 7, message(b'{"a": 1}')[:-1]])
def test_a_message_that_is_never_completed_times_out(pair: tuple[Channel, socket.socket], begun: bytes) -> None:
    ours, theirs = pair
    theirs.sendall(begun)
    with pytest.raises(ChannelTimeoutError):
        ours.receive(0.1)


def test_the_time_limit_holds_for_the_whole_message(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    stop = threading.Event()

    def dribble() -> None:
        theirs.sendall(struct.pack(">QQ", 10_000, 0))
        while not stop.wait(0.02):
            theirs.sendall(b" ")

    thread = threading.Thread(target=dribble)
    thread.start()
    started = time.monotonic()
    with pytest.raises(ChannelTimeoutError):
        ours.receive(0.3)
    waited = time.monotonic() - started
    stop.set()
    thread.join()
    # Ten thousand bytes would have taken two hundred seconds.
    assert waited < 100


def test_a_side_that_does_not_read_holds_nobody_up(pair: tuple[Channel, socket.socket]) -> None:
    with pytest.raises(ChannelTimeoutError):
        pair[0].send({}, b"x" * 30_000_000, timeout=0.2)


def test_the_end_of_the_other_side_is_told(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(b"\x00" * 5)
    theirs.close()
    assert ours.ready(0.0)
    with pytest.raises(ChannelClosedError):
        ours.receive(1.0)
    with pytest.raises(ChannelClosedError):
        ours.send({}, b"x" * 1_000_000)


def test_a_rendezvous_is_for_one(tmp_path: Path) -> None:
    with scratch_folder("fxopt-") as folder:
        meeting = Rendezvous(Path(folder), "here")
        assert Path(folder).stat().st_mode & 0o077 == 0
        first = connect(str(meeting.path))
        channel = meeting.accept(5.0)
        first.send({"hello": "you"})
        assert channel.receive(1.0).header == {"hello": "you"}
        assert not meeting.path.exists()
        with pytest.raises(OSError, match="No such file"):
            connect(str(meeting.path))
        first.close()
        channel.close()
        with pytest.raises(ChannelTimeoutError):
            Rendezvous(Path(folder), "nobody").accept(0.05)
        assert not list(Path(folder).iterdir())


def test_a_message_is_plain_json(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    ours.send({"b": 1}, b"\x01")
    raw = theirs.recv(1000)
    assert json.loads(raw[16:24]) == {"b": 1}
    assert raw[24:] == b"\x01"
